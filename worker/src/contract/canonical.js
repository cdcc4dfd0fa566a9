/**
 * JSON texts in one form: RFC 8785, and what has none (rule K8).
 *
 * ECMAScript's numbers and strings are RFC 8785 as they are.  Its objects are not: names that look like integers come
 * first in them, so canonical texts are written here, name by name.
 */

import { textOf } from "./bytes.js";
import { Malformed, Unkeyable } from "./errors.js";

export const MAX_EXACT = Number.MAX_SAFE_INTEGER;
export const MAX_BYTES = 4 * 1024 * 1024;
export const MAX_DEPTH = 128;
export const MAX_VALUES = 1_000_000;

const ENDS_LEAF = ",]} \t\n\r";
const SURROGATE_ESCAPE = /\\u[dD][89a-fA-F]/;
const [QUOTE, COMMA, COLON, BACKSLASH] = [0x22, 0x2c, 0x3a, 0x5c];
const [SPACE, TAB, LF, CR] = [0x20, 0x09, 0x0a, 0x0d];
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

/**
 * The value of a JSON text given as bytes.
 *
 * Throws Malformed for what is not JSON or passes a limit, Unkeyable for what is JSON but has no one meaning.
 * Repeated names are looked for first, then lone surrogates, then numbers.
 */
export function read(bytes) {
  if (bytes.length > MAX_BYTES) throw new Unkeyable("size");
  const text = decoded(bytes);
  checkLimits(text);
  const [value, hasRepeat] = parsed(text);
  if (hasRepeat) throw new Unkeyable("repeat");
  if (SURROGATE_ESCAPE.test(text) && hasLoneSurrogate(value)) throw new Unkeyable("surrogate");
  return settle(value);
}

/**
 * The value of a JSON text, and whether one of its objects names a member twice; throws Malformed.
 *
 * The parser keeps the last of two members with one name, so its value shows fewer colons than the text; exact unless
 * the text writes a colon as an escape.  Names with escapes are not left to the parser: V8 (seen in workerd of April
 * 2025 to April 2026) takes one for an earlier name that looks as it is written, so that after {"\\": 1} it reads
 * {"\u65e5": 1} as {"\\": 1}.
 */
export function parsed(text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    // The parser's own words would quote the body.
    throw new Malformed("the body is not JSON");
  }
  if (text.includes("\\u003") || hasEscapedName(text)) return parsedLeafByLeaf(text);
  return [value, colons(text) !== colons(JSON.stringify(value))];
}

/** The RFC 8785 text of a settled value. */
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map((item) => canonical(item)).join(",")}]`;
  if (!isObject(value)) return JSON.stringify(value);
  const names = Object.keys(value).sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(",")}}`;
}

/** The value itself; throws Unkeyable("number") if one of its numbers has no canonical form. */
export function settle(value) {
  if (typeof value === "number" && !(Math.abs(value) <= MAX_EXACT)) throw new Unkeyable("number");
  if (value !== null && typeof value === "object") Object.values(value).forEach(settle);
  return value;
}

/**
 * Throws Malformed over 128 brackets open at once or 1,000,000 values, at a cost linear in the text.
 *
 * Counted before parsing, so that no text makes the parser build more than the limits allow.
 */
export function checkLimits(text) {
  let depth = 0;
  let values = 1;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case QUOTE:
        at = endOfString(text, at);
        break;
      case COMMA:
        values += 1;
        break;
      case OPEN_LIST:
      case OPEN_OBJECT:
        depth += 1;
        if (depth > MAX_DEPTH) {
          throw new Malformed(`the JSON is nested deeper than ${MAX_DEPTH} levels: make it flatter`);
        }
        if (!isClosing(text.charCodeAt(afterSpace(text, at + 1)))) values += 1;
        break;
      case CLOSE_LIST:
      case CLOSE_OBJECT:
        depth -= 1;
        break;
    }
  }
  if (values > MAX_VALUES) {
    throw new Malformed(`the JSON has more than ${MAX_VALUES.toLocaleString("en")} values: send less at once`);
  }
}

/**
 * The value of a sound JSON text, put together from its leaves one by one.
 *
 * `leafOf` makes a value of the text of a string, number or word; `objectOf` one of an object's [name, value]s.
 */
export function built(text, { objectOf, leafOf }) {
  let at = 0;

  function value() {
    at = afterSpace(text, at);
    switch (text.charCodeAt(at)) {
      case OPEN_OBJECT:
        return objectOf(each(CLOSE_OBJECT, member));
      case OPEN_LIST:
        return each(CLOSE_LIST, value);
      default:
        return leaf();
    }
  }

  function member() {
    const name = leaf();
    at = afterSpace(text, at) + 1;
    return [name, value()];
  }

  function each(closing, item) {
    const found = [];
    at = afterSpace(text, at + 1);
    while (text.charCodeAt(at) !== closing) {
      found.push(item());
      at = afterSpace(text, at);
      if (text.charCodeAt(at) === COMMA) at = afterSpace(text, at + 1);
    }
    at += 1;
    return found;
  }

  function leaf() {
    const start = at;
    if (text.charCodeAt(at) === QUOTE) at = endOfString(text, at) + 1;
    else while (at < text.length && !ENDS_LEAF.includes(text[at])) at += 1;
    return leafOf(text.slice(start, at));
  }

  return value();
}

/** Whether a JSON value is an object: neither null nor an array. */
export function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

function decoded(bytes) {
  try {
    return textOf(bytes);
  } catch {
    throw new Malformed("the body is not JSON: it is not UTF-8");
  }
}

function hasLoneSurrogate(value) {
  if (typeof value === "string") return !value.isWellFormed();
  if (Array.isArray(value)) return value.some(hasLoneSurrogate);
  if (!isObject(value)) return false;
  return Object.entries(value).some(([name, member]) => !name.isWellFormed() || hasLoneSurrogate(member));
}

function colons(text) {
  let count = 0;
  for (let at = text.indexOf(":"); at >= 0; at = text.indexOf(":", at + 1)) count += 1;
  return count;
}

/** Whether a sound JSON text writes the name of a member with an escape. */
function hasEscapedName(text) {
  if (!text.includes("\\")) return false;
  let end;
  for (let at = text.indexOf('"'); at >= 0; at = text.indexOf('"', end + 1)) {
    end = endOfString(text, at);
    const isName = text.charCodeAt(afterSpace(text, end + 1)) === COLON;
    if (isName && text.slice(at, end).includes("\\")) return true;
  }
  return false;
}

function parsedLeafByLeaf(text) {
  let hasRepeat = false;
  function objectOf(pairs) {
    hasRepeat ||= new Set(pairs.map(([name]) => name)).size < pairs.length;
    return Object.fromEntries(pairs);
  }
  const value = built(text, { objectOf, leafOf: (leaf) => JSON.parse(leaf) });
  return [value, hasRepeat];
}

/** Where the string that opens here closes; the text's length if it does not. */
function endOfString(text, opened) {
  let at = opened + 1;
  while (at < text.length && text.charCodeAt(at) !== QUOTE) at += text.charCodeAt(at) === BACKSLASH ? 2 : 1;
  return Math.min(at, text.length);
}

function afterSpace(text, from) {
  let at = from;
  while (isSpace(text.charCodeAt(at))) at += 1;
  return at;
}

function isSpace(unit) {
  return unit === SPACE || unit === LF || unit === CR || unit === TAB;
}

function isClosing(unit) {
  return unit === CLOSE_LIST || unit === CLOSE_OBJECT;
}
