/** From an answer that has ended to a record, or the reason why there is none (rules P1, P2, F1, F2, R2, U1). */

import { textOf } from "./contract/bytes.js";
import { checkLimits, isObject } from "./contract/canonical.js";
import { Malformed } from "./contract/errors.js";
import { endsCleanly, split } from "./contract/events.js";
import { madeMs, upstreamLifetimes } from "./contract/freshness.js";
import { edgeMayStore } from "./contract/manners.js";
import { KEYED_HEADERS } from "./contract/query.js";
import { keptHeaders } from "./contract/record.js";
import { NEGATIVE_S, isNegative, whyNot } from "./contract/storable.js";
import { byName } from "./fields.js";
import { NotAnAnswer } from "./projections/fold.js";
import { WHOLE_OF } from "./projections/shapes.js";
import { plain } from "./projections/verbatim.js";

/**
 * [record, null] of a cleanly ended answer, or [null, one word that says why it isn't kept].
 *
 * `departure` is what was known when its flight began: `asked`, `named`, `lifetimes`, `tags` with the generations of
 * that moment, `askedMs`, `askedForUsage`.
 */
export function recordOf(departure, incoming, { body, nowMs }) {
  const { asked, named } = departure;
  const headers = byName(incoming.headers);
  const why = whyNotKept(incoming, headers);
  if (why !== null) return [null, why];
  const kind = headers.get("content-type") ?? "";
  const shape = isEvents(kind) ? "events" : "whole";
  const [value, unread] = judged(asked, { status: incoming.status, kind, body, shape });
  if (unread !== null) return [null, unread];
  if (!incoming.isProven && !provesItsEnd(value, shape)) return [null, "end-unproven"];
  const limited = asked.limited || named.route.origin.limitsAnswers;
  const refused = whyNot(asked.operation, incoming.status, value, { limited });
  if (refused !== null) return [null, refused];
  const lifetimes = lifetimesOf(departure, headers, nowMs);
  if (lifetimes === null) return [null, "upstream-forbids"];
  const usage = isObject(value) && isObject(value.usage) ? value.usage : null;
  const has = usage !== null || departure.askedForUsage ? ["usage"] : [];
  const record = common(departure, incoming, { body, nowMs, headers, shape });
  return [{ ...record, ...lifetimes, kind: "answer", has, usage }, null];
}

/** The record of an error of the caller's own making, good for some seconds (rule P2), or null. */
export function negativeOf(departure, incoming, { body, nowMs }) {
  const headers = byName(incoming.headers);
  const kind = headers.get("content-type") ?? "";
  if (whyNotKept(incoming, headers) !== null || !isJson(kind)) return null;
  if (!isNegative(incoming.status, jsonOf(body))) return null;
  const fresh_s = Math.min(NEGATIVE_S, departure.lifetimes.fresh_s);
  const lifetimes = { fresh_s, stale_while_revalidate_s: 0, stale_if_error_s: 0 };
  const record = common(departure, incoming, { body, nowMs, headers, shape: "whole" });
  return { ...record, ...lifetimes, kind: "negative", has: [] };
}

/** Whether an answer may be kept if it ends cleanly, as far as its head tells. */
export function admits(departure, incoming, { nowMs }) {
  const headers = byName(incoming.headers);
  const kind = headers.get("content-type") ?? "";
  const { operation } = departure.asked;
  if (incoming.status !== 200 || whyNotKept(incoming, headers) !== null) return false;
  if (isEvents(kind) ? !WHOLE_OF.has(operation) : !isJson(kind) && !operation.startsWith("get ")) return false;
  return lifetimesOf(departure, headers, nowMs) !== null;
}

export function isEvents(contentType) {
  return mediaType(contentType) === "text/event-stream";
}

export function isJson(contentType) {
  const kind = mediaType(contentType);
  return kind === "application/json" || kind.endsWith("+json");
}

function mediaType(contentType) {
  return contentType.split(";", 1)[0].trim().toLowerCase();
}

function whyNotKept(incoming, headers) {
  if (incoming.isFallback) return "fallback";
  if (incoming.whyNot !== null) return incoming.whyNot;
  // A node vouches for what it gave from its cache or put there, and for nothing else.
  return edgeMayStore(headers.get("cache-status")) ? null : "not-vouched";
}

function common({ asked, named, tags, askedMs }, incoming, { body, nowMs, headers, shape }) {
  return {
    key: named.key,
    namespace: named.query.namespace,
    operation: asked.operation,
    model: named.query.model,
    revision: named.query.revision,
    made_ms: madeMs(nowMs, headers.get("age")),
    asked_ms: askedMs,
    status: incoming.status,
    content_type: headers.get("content-type") ?? "application/octet-stream",
    headers: keptHeaders(incoming.headers),
    shape,
    took_ms: nowMs - askedMs,
    tags,
    body,
  };
}

/** What the route, the caller and, where the route says so, the upstream leave; null: it may not be kept. */
function lifetimesOf({ named: { route }, lifetimes }, headers, nowMs) {
  if (!route.respectsUpstream) return lifetimes;
  const keyed = new Set([...KEYED_HEADERS, ...route.keyedHeaders, "accept-language"]);
  return upstreamLifetimes(headers, lifetimes, { sharedScope: route.shared, keyed, nowMs });
}

/** The JSON value of an answer, folded if it is a transcript; or why it can't be one. */
function judged(asked, { status, kind, body, shape }) {
  if (status !== 200) return [null, "status"];
  if (body.length === 0) return [null, "empty"];
  if (shape === "events") return judgedTranscript(asked.operation, body);
  if (isJson(kind)) {
    const value = jsonOf(body);
    return value === undefined ? [null, "unreadable"] : [value, null];
  }
  return asked.operation.startsWith("get ") ? [null, null] : [null, "not-json"];
}

function judgedTranscript(operation, body) {
  if (!WHOLE_OF.has(operation)) return [null, "events"];
  try {
    const [events, rest] = split(body);
    if (!endsCleanly(events, rest)) return [null, "no-clean-end"];
    return [plain(WHOLE_OF.get(operation)(events)), null];
  } catch (error) {
    if (error instanceof NotAnAnswer || error instanceof TypeError) return [null, "unreadable"];
    throw error;
  }
}

/** The value of a JSON body; undefined if it can't be read. */
function jsonOf(body) {
  try {
    const text = textOf(body);
    checkLimits(text);
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof TypeError || error instanceof Malformed) return undefined;
    throw error;
  }
}

/**
 * Whether what came shows itself that it is all, since the platform doesn't tell how an answer was framed.
 *
 * A transcript has its `[DONE]`; an object, a list and a text close what they opened; a number may go on.
 */
function provesItsEnd(value, shape) {
  return shape === "events" || typeof value === "string" || (typeof value === "object" && value !== null);
}
