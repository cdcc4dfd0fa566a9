/** One recorded answer in the shape that is asked for (rules P3 and P4). */

import { holds, joined, utf8 } from "../contract/bytes.js";
import { DONE, eventOf, split } from "../contract/events.js";
import * as calls from "./calls.js";
import * as chat from "./chat.js";
import * as completion from "./completion.js";
import { NotAnAnswer } from "./fold.js";
import { objectIn, written } from "./verbatim.js";

export const EVENT_STREAM = "text/event-stream; charset=utf-8";
export const JSON_TYPE = "application/json";

export const WHOLE_OF = new Map([["chat", chat.wholeOf], ["completion", completion.wholeOf]]);
export const TRANSCRIPT_OF = new Map([["chat", chat.transcriptOf], ["completion", completion.transcriptOf]]);

/** The whole answer that a transcript tells; throws NotAnAnswer, or TypeError if an event isn't UTF-8. */
export function folded(operation, transcript) {
  return WHOLE_OF.get(operation)(split(transcript)[0]);
}

/**
 * A record's body as one JSON document; with randomness, tool calls get fresh ids.
 *
 * Throws as `folded` does for a transcript; a whole body that can't be read is given as it is.
 */
export async function whole(operation, body, { shape, randomness = null }) {
  if (shape === "events") {
    const answer = folded(operation, body);
    if (randomness !== null) await calls.wholeWithFreshIds(answer, randomness);
    return utf8(written(answer));
  }
  if (randomness !== null && operation === "chat" && calls.hasCalls(body)) {
    const answer = objectIn(body);
    if (answer !== null && (await calls.wholeWithFreshIds(answer, randomness))) return utf8(written(answer));
  }
  return body;
}

/**
 * A record's body as a transcript, with the usage event only for those who asked for it.
 *
 * Throws NotAnAnswer, or TypeError for a transcript that isn't UTF-8.
 */
export async function events(operation, body, { shape, usage, randomness = null }) {
  let transcript = body;
  if (shape !== "events") transcript = unfolded(operation, body, { usage });
  else if (!usage) transcript = withoutUsage(body);
  if (randomness !== null && operation === "chat" && calls.hasCalls(transcript)) {
    return calls.transcriptWithFreshIds(transcript, randomness);
  }
  return transcript;
}

/** The transcript less the event that tells only usage. */
export function withoutUsage(transcript) {
  if (!holds(transcript, '"usage"')) return transcript;
  const [found, rest] = split(transcript);
  const told = found.filter((event) => !tellsOnlyUsage(event)).map((event) => event.raw);
  return told.length === found.length ? transcript : joined([...told, rest]);
}

/** Whether an event, or its bytes, is the one that `stream_options.include_usage` adds: no choices, and usage. */
export function tellsOnlyUsage(event) {
  const raw = event instanceof Uint8Array ? event : event.raw;
  if (!holds(raw, '"usage"')) return false;
  const told = raw === event ? dataOf(raw) : event.data;
  const chunk = told === null || told === DONE ? null : objectIn(told);
  return chunk !== null && isEmptyList(chunk.get("choices")) && chunk.get("usage") instanceof Map;
}

function unfolded(operation, body, { usage }) {
  const answer = objectIn(body);
  if (answer === null) throw new NotAnAnswer("the answer is not a JSON object");
  return TRANSCRIPT_OF.get(operation)(answer, { usage });
}

/** What an event tells; null if it tells nothing or isn't UTF-8. */
function dataOf(raw) {
  try {
    return eventOf(raw).data;
  } catch {
    return null;
  }
}

function isEmptyList(value) {
  return Array.isArray(value) && value.length === 0;
}
