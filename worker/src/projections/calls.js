/**
 * Fresh ids for the tool calls of a recorded answer (rule P3).
 *
 * Clients put the ids of several answers into one conversation, where a provider refuses an id met twice.  The new id
 * follows from the recorded one and given randomness: the same inside one answer, another in the next.
 */

import { holds, joined, sha256, textOf, utf8 } from "../contract/bytes.js";
import { DONE, split } from "../contract/events.js";
import { objectIn, written } from "./verbatim.js";

export const SHORTEST_RANDOM_PART = 9;
export const RANDOM_PART = 24;

const LINE = /[^\r\n]*(?:\r\n|\n|\r)/g;
const NOT_KEPT = /^(?:data[:\r\n]|[\r\n])/;
const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** A new id of the old one's prefix and, where that leaves room enough for chance, its length. */
export async function freshId(recorded, randomness) {
  const prefix = recorded.slice(0, Math.max(recorded.lastIndexOf("_"), recorded.lastIndexOf("-")) + 1);
  let length = Array.from(recorded.slice(prefix.length)).length;
  if (length < SHORTEST_RANDOM_PART) length = RANDOM_PART;
  let digits = "";
  for (let block = 0; digits.length < length; block++) {
    const run = await sha256(joined([utf8(`${block}\n`), randomness, utf8(`\n${recorded}`)]));
    // 248 is the largest multiple of 62 in a byte: what lies above would favour some digits.
    for (const byte of run) if (byte < 248) digits += DIGITS[byte % 62];
  }
  return prefix + digits.slice(0, length);
}

/** Whether a body may hold tool calls: cheap, and never wrongly no. */
export function hasCalls(body) {
  return holds(body, "tool_calls") || holds(body, "\\u00");
}

/** Gives the calls of a whole answer fresh ids in place; whether there were any. */
export function wholeWithFreshIds(whole, randomness) {
  return freshen(whole, "message", randomness);
}

/** The transcript with fresh ids; only events that name one are written anew, and only their data. */
export async function transcriptWithFreshIds(transcript, randomness) {
  const [events, rest] = split(transcript);
  return joined([...(await Promise.all(events.map((event) => eventWithFreshIds(event, randomness)))), rest]);
}

async function eventWithFreshIds(event, randomness) {
  if (event.data === null || event.data === DONE || !hasCalls(event.raw)) return event.raw;
  const chunk = objectIn(event.data);
  if (chunk === null || !(await freshen(chunk, "delta", randomness))) return event.raw;
  const lines = textOf(event.raw).replace(/^\ufeff/, "").match(LINE);
  const others = lines.filter((line) => !NOT_KEPT.test(line)).join("");
  return utf8(`${others}data: ${written(chunk)}\n\n`);
}

async function freshen(answer, holder, randomness) {
  let found = false;
  for (const choice of objectsIn(answer, "choices")) {
    for (const call of objectsIn(choice.get(holder), "tool_calls")) {
      if (typeof call.get("id") === "string" && call.get("id") !== "") {
        call.set("id", await freshId(call.get("id"), randomness));
        found = true;
      }
    }
  }
  return found;
}

/** The objects in an object's list; none where there is no such list. */
function objectsIn(value, name) {
  const items = value instanceof Map ? value.get(name) : null;
  return Array.isArray(items) ? items.filter((item) => item instanceof Map) : [];
}
