/** The isolate's counts as one JSON document, by the node's names. */

import { VERSION } from "../version.js";

export function stats(node, bodies) {
  const { counters, tiers, keeping, flights, generations, catalogues, metrics, logs, scope } = node;
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
    catalogues: catalogues.map(({ reads, errors }) => ({ reads, errors })),
    metrics: metrics === null ? null : { lost: metrics.lost },
    logs: logs === null ? null : told(logs),
    memory: {
      bodies: room(bodies.room),
      flights: room(flights.room),
      writing: room(keeping.writing),
      left: { held_bytes: flights.leftBytes, limit_bytes: flights.leftLimitBytes },
      memo: { held_bytes: node.memoBytes, limit_bytes: node.memoLimitBytes },
      tables: tables([scope, generations, keeping]),
    },
  };
}

/** What is remembered of names: namespaces, tags, what was just written. */
function tables(parts) {
  const sum = (name) => parts.reduce((total, part) => total + part[name], 0);
  return { held_bytes: sum("heldBytes"), limit_bytes: sum("limitBytes") };
}

function told({ written, objects, lost, waiting }) {
  return { written, objects, lost, waiting };
}

function room({ heldBytes, mostBytes, limitBytes }) {
  return { held_bytes: heldBytes, most_bytes: mostBytes, limit_bytes: limitBytes };
}
