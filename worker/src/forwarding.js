/** What goes to an origin beside the question: only what is keyed or known to change nothing (rules K3 and P4). */

import { textOf, utf8 } from "./contract/bytes.js";
import { isObject } from "./contract/canonical.js";
import { INERT_HEADERS, KEYED_HEADERS } from "./contract/query.js";
import { WHOLE_OF } from "./projections/shapes.js";

const SPACE = /[ \t\r\n]/;

/** Headers, and a credential where the route passes it; `mayUseOwn` says whether the origin's own may go instead. */
export function forwarded(head, asked, route) {
  const allowed = new Set([...KEYED_HEADERS, ...INERT_HEADERS, ...route.keyedHeaders, ...route.inertHeaders]);
  if (asked.operation.startsWith("json ") || asked.operation.startsWith("get ")) allowed.add("accept-language");
  const credential =
    route.passesCredential && head.ownCredential !== null
      ? head.headers.find(([name]) => name === head.ownCredential)
      : null;
  return {
    headers: head.headers.filter(([name]) => allowed.has(name)),
    credential,
    mayUseOwn: !route.passesCredential,
  };
}

/**
 * The question as it goes out, and whether its answer will tell usage.
 *
 * A streamed one is asked with `include_usage`, the one thing we change in a body; all its other bytes stay.
 */
export function askingForUsage(asked, route) {
  if (asked.usage || !WHOLE_OF.has(asked.operation)) return [asked, true];
  if (!route.asksUsage) return [asked, false];
  const members = rawMembers(asked.body);
  const options = JSON.parse(members.get("stream_options") ?? "null");
  if (options !== null && !isObject(options)) return [asked, false];
  members.set("stream_options", JSON.stringify({ ...options, include_usage: true }));
  return [{ ...asked, body: fromRawMembers(members) }, true];
}

/** The members of a sound JSON object, given as its bytes or its text, each value in its own text. */
export function rawMembers(body) {
  const text = typeof body === "string" ? body : textOf(body);
  const members = new Map();
  let at = skipSpace(text, text.indexOf("{") + 1);
  while (text[at] !== "}") {
    const nameEnd = endOfValue(text, at);
    const name = JSON.parse(text.slice(at, nameEnd));
    const began = skipSpace(text, skipSpace(text, nameEnd) + 1);
    const ended = endOfValue(text, began);
    members.set(name, text.slice(began, ended));
    at = skipSpace(text, ended);
    if (text[at] === ",") at = skipSpace(text, at + 1);
  }
  return members;
}

/** The items of a sound JSON list, each in its own text. */
export function rawItems(text) {
  const items = [];
  let at = skipSpace(text, text.indexOf("[") + 1);
  while (text[at] !== "]") {
    const ended = endOfValue(text, at);
    items.push(text.slice(at, ended));
    at = skipSpace(text, ended);
    if (text[at] === ",") at = skipSpace(text, at + 1);
  }
  return items;
}

export function fromRawMembers(members) {
  return utf8(`{${Array.from(members, ([name, raw]) => `${JSON.stringify(name)}:${raw}`).join(",")}}`);
}

function skipSpace(text, from) {
  let at = from;
  while (at < text.length && SPACE.test(text[at])) at += 1;
  return at;
}

/** Where the value that begins here ends. */
function endOfValue(text, from) {
  let depth = 0;
  for (let at = from; at < text.length; at++) {
    const c = text[at];
    if (c === '"') {
      at = endOfString(text, at);
      if (depth === 0) return at + 1;
    } else if (c === "{" || c === "[") {
      depth += 1;
    } else if (c === "}" || c === "]") {
      if (depth === 0) return at;
      depth -= 1;
      if (depth === 0) return at + 1;
    } else if (depth === 0 && (c === "," || SPACE.test(c))) {
      return at;
    }
  }
  return text.length;
}

function endOfString(text, opened) {
  let at = opened + 1;
  while (at < text.length && text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
  return at;
}
