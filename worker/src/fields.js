/**
 * Header fields, as all of Foretold has them: one code point of a value is one byte, for values are bytes (Latin-1).
 *
 * The platform reads and writes them as UTF-8, several lines of one name already joined.
 */

import { textOf, utf8 } from "./contract/bytes.js";

const ASCII = /^[\x00-\x7f]*$/;

export function fieldsOf(headers) {
  return Array.from(headers, ([name, value]) => [name.toLowerCase(), asBytes(value)]);
}

/** Whether the platform could not read a value, and so gave the same text for what was not the same. */
export function isUnread(value) {
  return value.includes("\ufffd");
}

/** What the platform must be given so that it writes the bytes of a value. */
export function asUtf8(value) {
  if (ASCII.test(value)) return value;
  try {
    return textOf(Uint8Array.from(value, (c) => c.charCodeAt(0)));
  } catch {
    return value;
  }
}

/** The value of each name, its lines joined by ", " in their order (RFC 9110 section 5.3). */
export function byName(fields) {
  const values = new Map();
  for (const [name, value] of fields) values.set(name, values.has(name) ? `${values.get(name)}, ${value}` : value);
  return values;
}

function asBytes(value) {
  return ASCII.test(value) ? value : String.fromCharCode(...utf8(value));
}
