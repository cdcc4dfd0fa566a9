/** Values of the vectors in JavaScript's own, and back. */

import { textOf, utf8 } from "../src/contract/bytes.js";

export const SECRET = new Uint8Array(32);

/** What HTTP callers get for an error's code. */
export const STATUSES = { malformed_body: 400, bad_control: 400, two_credentials: 400, bad_credential: 401 };

/** Bytes told as utf8, base64, hex, or as texts repeated. */
export function bytesOf(told) {
  const [[notation, value]] = Object.entries(told);
  switch (notation) {
    case "utf8":
      return utf8(value);
    case "base64":
      return Uint8Array.from(atob(value), (character) => character.charCodeAt(0));
    case "hex":
      return Uint8Array.from(value.match(/../g) ?? [], (digits) => Number.parseInt(digits, 16));
    case "repeated":
      return utf8(value.map(([text, times]) => text.repeat(times)).join(""));
  }
  throw new Error(`${JSON.stringify(notation)} is no notation for bytes`);
}

/** A number of seconds, of which `any` is infinitely many. */
export function secondsOf(told) {
  return told === "any" ? Infinity : told;
}

/** An object with its names in camelCase, as arguments have them here. */
export function inCamelCase(members) {
  return renamed(members, (name) => name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase()));
}

/** An object with its names in snake_case, as vectors have them. */
export function inSnakeCase(members) {
  return renamed(members, (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`));
}

export function text(bytes) {
  return textOf(bytes);
}

function renamed(members, rename) {
  return Object.fromEntries(Object.entries(members).map(([name, value]) => [rename(name), value]));
}
