/**
 * Is this a real answer, worth keeping?  (rules P1 and P2)
 *
 * Every function returns null for yes, or one word that says why not; the word goes into `Cache-Status` detail.
 */

import { isObject } from "./canonical.js";
import { dimensions } from "./float32.js";

export const NEGATIVE_STATUSES = new Set([400, 404, 413, 422]);
export const NEGATIVE_S = 10;

const LIMITS = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
const ALWAYS_FINISHED = ["stop", "tool_calls", "function_call"];

/** Whether a request limits its own answer, so that `length` is what it asked for. */
export function hasLimit(body) {
  return isObject(body) && LIMITS.some((name) => (body[name] ?? null) !== null);
}

/** The verdict on a whole JSON answer, or on a transcript folded into one. */
export function whyNot(operation, status, value, { limited }) {
  if (status !== 200) return "status";
  if (isObject(value) && (value.error ?? null) !== null) return "error";
  if (operation === "embedding") {
    return isObject(value) && Array.isArray(value.data) ? whyNotVectors(value.data, 1) : "count";
  }
  if (operation !== "chat" && operation !== "completion") return null;
  const choices = isObject(value) ? value.choices : null;
  if (!Array.isArray(choices) || choices.length === 0) return "no-choice";
  for (const choice of choices) {
    const reason = whyNotChoice(operation, choice, { limited });
    if (reason !== null) return reason;
  }
  return null;
}

/** The verdict on the items of an answer to so many inputs. */
export function whyNotVectors(items, inputs) {
  if (items.length !== inputs) return "count";
  const places = new Set();
  let length = null;
  for (const item of items) {
    if (!isObject(item)) return "shape";
    const { index } = item;
    if (!Number.isInteger(index) || index < 0 || index >= inputs || places.has(index)) return "index";
    places.add(index);
    const found = dimensions(item.embedding);
    if (found === null) return "shape";
    if (length !== null && length !== found) return "lengths";
    length = found;
  }
  return null;
}

/** Whether an error may be kept for a few seconds (P2): one of the caller's own making, in the dialect's shape. */
export function isNegative(status, value) {
  return (
    NEGATIVE_STATUSES.has(status) && isObject(value) && (isObject(value.error) || typeof value.error === "string")
  );
}

function whyNotChoice(operation, choice, { limited }) {
  if (!isObject(choice)) return "no-choice";
  const finish = choice.finish_reason;
  if (finish === "length" && !limited) return "length";
  if (finish !== "length" && !ALWAYS_FINISHED.includes(finish)) {
    return finish === "content_filter" ? `finish-${finish}` : "finish";
  }
  return operation === "completion" ? whyNotText(choice.text) : whyNotMessage(choice.message);
}

function whyNotText(text) {
  if (typeof text !== "string") return "shape";
  return text === "" ? "empty" : null;
}

function whyNotMessage(message) {
  if (!isObject(message)) return "shape";
  const calls = message.tool_calls ?? null;
  if (calls !== null && !(Array.isArray(calls) && calls.every(isObject))) return "shape";
  const said = ["content", "tool_calls", "function_call", "refusal", "audio"].map((name) => message[name]);
  return said.some((part) => !isEmpty(part)) ? null : "empty";
}

/** Nothing, false, 0, or a text, list or object without anything in it. */
function isEmpty(part) {
  return !part || (typeof part === "object" && Object.keys(part).length === 0);
}
