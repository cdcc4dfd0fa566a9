/** The isolate's counts as one JSON document, by the node's names. */

import { VERSION } from "../version.js";

export function stats(node, bodies) {
  const { counters, tiers, keeping, flights, generations } = node;
  return {
    version: VERSION,
    of: "this isolate only: every data centre runs several, and each begins at nothing",
    received: counters.received,
    how: counters.how,
    took_ms: counters.tookMs,
    ended: counters.ended,
    stored: keeping.kept,
    dropped: keeping.dropped,
    saved_ms: counters.savedMs,
    flights: flights.size,
    riders: flights.riders,
    corrupt: tiers.corrupt,
    generations: { reads: generations.reads, errors: generations.errors },
    tiers: [
      {
        name: tiers.memory.name,
        ...tiers.memoryCounts,
        held_bytes: tiers.memory.heldBytes,
        limit_bytes: tiers.memory.limitBytes,
      },
      ...tiers.all.map((tier) => ({ name: tier.name, ...tier.counts, read_only_until_ms: tier.readOnlyUntilMs })),
    ],
    memory: {
      bodies: room(bodies.room),
      flights: room(flights.room),
    },
  };
}

function room({ heldBytes, mostBytes, limitBytes }) {
  return { held_bytes: heldBytes, most_bytes: mostBytes, limit_bytes: limitBytes };
}
