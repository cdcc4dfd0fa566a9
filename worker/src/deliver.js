/** From flights and passes to answers: shape, headers, and what they say about the cache (rules P3, P4, S1). */

import { CodePoints, cutAnew, isUtf8 } from "./code_points.js";
import { joined, utf8 } from "./contract/bytes.js";
import { Splitter } from "./contract/events.js";
import { EDGE, cacheStatus, listed } from "./contract/status.js";
import { OriginError } from "./errors.js";
import { byName } from "./fields.js";
import { collected } from "./flight.js";
import { isEvents } from "./landing.js";
import { ENDED } from "./outcome.js";
import * as shapes from "./projections/shapes.js";
import { shapeFor } from "./ready.js";
import { reshaped } from "./reshaping.js";

const OURS = new Set([
  "cache-status", "cf-aig-cache-status", "cache-control", "etag", "expires", "last-modified", "pragma",
  "content-length", "set-cookie", "date",
]);
const OF_THE_BYTES = new Set([
  "content-type", "content-md5", "digest", "content-digest", "repr-digest", "accept-ranges",
]);
// What an origin tells the one caller whose query it answered: of that query alone, or of its account.
const FOR_ONE_CALLER = new RegExp(
  "cookie|session|request-?id|correlation-?id|trace|^cf-ray$|rate-?limit|quota|credit|budget|spend|billing|balance" +
    "|organi[sz]ation|project|account|tenant|customer|user",
);

/** The answer of a flight, as soon as its head is here.  Throws what kept it from coming. */
export async function fromRide(ride, named, outcome, { status }) {
  const incoming = await ride.head();
  const { flight } = ride;
  const { operation } = named.query;
  outcome.status = incoming.status;
  const came = shapeThatCame(incoming);
  const wanted = incoming.status === 200 ? shapeFor(operation, came, named.streamed) : came;
  const close = leaving(ride, outcome);
  if (wanted !== came) {
    const made = await reshaped(await ride.whole(), operation, { wanted, usage: named.usage });
    outcome.stored = flight.whyNotKept === null;
    const detail = status.detail ?? (outcome.stored ? null : `not-kept-${flight.whyNotKept}`);
    return reshapedAnswer(made, missHeaders(incoming, { ...status, detail }, outcome), { outcome, close });
  }
  // Nothing but its length would tell that a whole answer broke off: without one, all of it is waited for.
  if (came === "whole" && incoming.length === null) await ride.landing();
  if (came === "whole" && flight.landedWhole) {
    // All of it is here, as with most short answers: what became of it is known.
    outcome.stored = flight.whyNotKept === null;
    const headers = missHeaders(incoming, status, outcome);
    return { status: incoming.status, headers, outcome, body: flight.body, close };
  }
  outcome.stored = flight.landing.admits(incoming);
  const headers = missHeaders(incoming, status, outcome);
  const isOurs = came === "events" && incoming.status === 200 && shapes.WHOLE_OF.has(operation);
  // Only what a rider or the edge itself asked for is kept from those who didn't; all else is the origin's word.
  const withholdUsage = flight.tellsUsage && !named.usage;
  const told = ride.chunks();
  const chunks = isOurs ? events(told, outcome, { withholdUsage }) : asTheyCome(told, incoming, outcome);
  const whenGone = (act) => (ride.whenGone = act);
  return { status: incoming.status, headers, outcome, chunks, length: isOurs ? null : incoming.length, close, whenGone };
}

/** An answer that goes through as it is, but for the shape: an origin that only streams is folded. */
export async function passed(incoming, asked, outcome, { status }) {
  outcome.status = incoming.status;
  const cookies = incoming.headers.filter(([name]) => name === "set-cookie");
  const headers = [...missHeaders(incoming, status, outcome), ...cookies];
  const isOurs = shapeThatCame(incoming) === "events" && shapes.WHOLE_OF.has(asked.operation);
  const close = () => incoming.close();
  if (isOurs && incoming.status === 200 && !asked.streamed) {
    const made = await reshaped(await collected(incoming.chunks()), asked.operation, { wanted: "whole", usage: true });
    return reshapedAnswer(made, headers, { outcome, close });
  }
  const chunks = incoming.chunks();
  const told = isOurs ? events(chunks, outcome, { withholdUsage: false }) : asTheyCome(chunks, incoming, outcome);
  return { status: incoming.status, headers, outcome, chunks: told, length: isOurs ? null : incoming.length, close };
}

/** What ends a stream that broke off, so that no client takes it for whole. */
export function errorEvent(error) {
  const message = `The answer broke off, what came is not all of it: ${error.message}`;
  return utf8(`data: ${JSON.stringify({ error: { message, type: "upstream_error", code: error.code } })}\n\n`);
}

/** Leaves the flight; by then it is known whether what was admitted for storing was kept. */
function leaving(ride, outcome) {
  return () => {
    const { flight } = ride;
    if (outcome.stored && flight.ended && (flight.error !== null || flight.whyNotKept !== null)) {
      outcome.stored = false;
      outcome.detail ??= `not-kept-${flight.whyNotKept ?? "cut"}`;
    }
    ride.leave();
  };
}

/** An answer whose shape may not be its origin's. */
function reshapedAnswer(made, headers, { outcome, close }) {
  outcome.status = made.status;
  const told =
    made.kind === null
      ? headers
      : [...headers.filter(([name]) => !OF_THE_BYTES.has(name)), ["content-type", made.kind]];
  return { status: made.status, headers: told, outcome, body: made.body, close };
}

function shapeThatCame(incoming) {
  return isEvents(byName(incoming.headers).get("content-type") ?? "") ? "events" : "whole";
}

/** What goes with an answer that came from an origin; those who ride along get all that belongs to it. */
function missHeaders(incoming, status, outcome) {
  const detail = incoming.isFallback ? "fallback" : status.detail;
  const stored = status.forwarded !== "bypass" && !status.collapsed && outcome.stored;
  outcome.detail = detail;
  const isEcho = status.detail === "backoff";
  const theirs = incoming.headers.filter(
    ([name]) =>
      !isOurs(name) && !(status.collapsed && FOR_ONE_CALLER.test(name)) && !(isEcho && name === "retry-after"),
  );
  const before = byName(incoming.headers).get("cache-status");
  return [
    ["cache-status", listed(before, cacheStatus({ ...status, cache: EDGE, detail, stored }))],
    ["cf-aig-cache-status", "MISS"],
    ["cache-control", "no-store"],
    ...theirs,
    ...(isEcho ? [["retry-after", "1"]] : []),
  ];
}

/** Whether a field is ours to tell: an origin knows nothing of this cache, nor which web pages may read here. */
function isOurs(name) {
  return OURS.has(name) || name.startsWith("access-control-");
}

async function* asTheyCome(chunks, incoming, outcome) {
  const headers = byName(incoming.headers);
  const isText = !headers.has("content-encoding") && isUtf8(headers.get("content-type") ?? "");
  try {
    yield* isText ? cutAnew(chunks) : chunks;
  } catch (error) {
    if (error instanceof OriginError) outcome.ended = ENDED.CUT;
    throw error;
  }
}

/**
 * Events as they come, each in its own bytes and never half of one, so that an error can be told after any.
 *
 * After an event too long to wait for, nothing can be told: then the connection breaks off with the answer.
 */
async function* events(chunks, outcome, { withholdUsage }) {
  const splitter = new Splitter();
  const points = new CodePoints();
  try {
    for await (const chunk of chunks) {
      const whole = splitter.feed(chunk).filter((event) => !(withholdUsage && shapes.tellsOnlyUsage(event)));
      // Events end between code points; what follows one too long to wait for is cut like any text.
      const told = splitter.hasGivenUp ? points.feed(joined(whole)) : joined(whole);
      if (told.length > 0) yield told;
    }
  } catch (error) {
    if (!(error instanceof OriginError)) throw error;
    outcome.ended = ENDED.CUT;
    if (splitter.hasGivenUp) throw error;
    yield errorEvent(error);
    return;
  }
  const rest = joined([points.rest(), splitter.rest()]);
  if (rest.length > 0) yield rest;
}
