/**
 * The answer of a record, made ready once and given again and again (rules P3, S1, S2).
 *
 * Body and fields are kept beside the record by shape; from one second to the next only the age changes.
 */

import { VERDICT } from "./contract/freshness.js";
import { EDGE, cacheStatus, clientCacheControl, etag, etagMatches } from "./contract/status.js";
import { HOW } from "./outcome.js";
import * as calls from "./projections/calls.js";
import * as shapes from "./projections/shapes.js";

// Two shapes, with and without usage, safe or not; the rest are callers whose aliases can't be read.
const MOST_PLACES = 12;
const RANDOM_BYTES = 16;

/** The answer that was made ready for the same wishes before; null if there is none, or each is made anew. */
export function again(found, judged, named) {
  const ready = found.held.ready.get(named.place);
  if (ready === undefined || ready.hasCalls) return null;
  return told(found, judged, named, { ready, body: ready.body, detail: named.detail });
}

/** The answer of a record: 304 where the caller's copy is the same.  Throws NotAnAnswer. */
export async function hit(found, judged, named, { detail = named.detail } = {}) {
  const { held } = found;
  let ready = held.ready.get(named.place);
  if (ready === undefined) {
    ready = await madeReady(held, named);
    if (held.ready.size < MOST_PLACES) held.ready.set(named.place, ready);
  }
  return told(found, judged, named, { ready, body: await bodyOf(held, ready), detail });
}

function told(found, judged, named, { ready, body, detail }) {
  const { held } = found;
  const shown = named.route.shared ? null : held.key;
  const status = cacheStatus({ cache: EDGE, hit: true, ttlS: judged.ttlS, key: shown, detail });
  const isSame = named.isSafe && held.kind !== "negative" && named.ifNoneMatch !== null && etagMatches(named.ifNoneMatch, ready.etag);
  const fields = [["cache-status", status], ["age", String(judged.ageS)], ...ready.fields];
  return {
    status: isSame ? 304 : held.status,
    headers: isSame ? fields.filter(([name]) => !name.startsWith("content-")) : fields,
    body: isSame ? null : body,
    how: judged.verdict === VERDICT.FRESH ? HOW.HIT : HOW.STALE,
    tier: found.tier,
    originMs: held.took_ms,
  };
}

async function madeReady(held, named) {
  const shape = held.kind === "negative" ? held.shape : shapeFor(held.operation, held.shape, named.streamed);
  const usage = named.usage || shape === "whole";
  const hasCalls = held.operation === "chat" && calls.hasCalls(held.body);
  const tag = etag(held.digest, shape);
  const kind = shape === held.shape ? held.content_type : contentType(shape);
  return {
    shape,
    usage,
    hasCalls,
    etag: tag,
    body: hasCalls ? null : await projected(held, { shape, usage, randomness: null }),
    fields: [
      ["cf-aig-cache-status", "HIT"],
      ...(held.kind === "negative" ? [] : [["etag", tag]]),
      ["cache-control", clientCacheControl(named.isSafe ? "GET" : "POST", { hit: true })],
      ["content-type", kind],
      ...held.headers.filter(([name]) => name !== "content-type"),
    ],
  };
}

/** A body with tool calls gets fresh ids in each delivery. */
function bodyOf(held, ready) {
  if (!ready.hasCalls) return ready.body;
  const randomness = crypto.getRandomValues(new Uint8Array(RANDOM_BYTES));
  return projected(held, { ...ready, randomness });
}

function projected(held, { shape, usage, randomness }) {
  if (!shapes.WHOLE_OF.has(held.operation) || held.kind === "negative") return held.body;
  if (shape === "whole") return shapes.whole(held.operation, held.body, { shape: held.shape, randomness });
  return shapes.events(held.operation, held.body, { shape: held.shape, usage, randomness });
}

/** The shape a caller wants of an answer that came in one. */
export function shapeFor(operation, came, streamed) {
  if (!shapes.WHOLE_OF.has(operation)) return came;
  return streamed ? "events" : "whole";
}

export function contentType(shape) {
  return shape === "events" ? shapes.EVENT_STREAM : shapes.JSON_TYPE;
}
