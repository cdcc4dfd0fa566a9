/**
 * JSON of answers, read and written so that only what is meant to changes (rule P3).
 *
 * Members keep their order and numbers their text.  ECMAScript's own objects and numbers don't: here an object is a
 * Map and a number a Numeral.
 */

import { textOf } from "../contract/bytes.js";
import { built, checkLimits } from "../contract/canonical.js";

export const LONGEST_NUMBER = 15;

const WHOLE_NUMBER = /^(?:0|-?[1-9][0-9]*)$/;

/** A number as it was told. */
export class Numeral {
  constructor(text) {
    this.text = text;
  }

  /** The number, if it is whole and of at most 15 characters: every JSON reader holds it exactly; else null. */
  get whole() {
    return this.text.length <= LONGEST_NUMBER && WHOLE_NUMBER.test(this.text) ? Number(this.text) : null;
  }
}

export function numeral(number) {
  return new Numeral(String(number));
}

/**
 * The object that a JSON text is, given as it is or as its bytes.
 *
 * Null if it is none: another value, no JSON, more than rule K8 lets in, or with a lone surrogate or a number beyond a
 * double's.
 */
export function objectIn(text) {
  const sound = soundText(text);
  if (sound === null) return null;
  let isReadable = true;
  function leafOf(leaf) {
    const value = valueOf(leaf);
    if (typeof value === "string") isReadable &&= value.isWellFormed();
    if (value instanceof Numeral) isReadable &&= Number.isFinite(Number(leaf));
    return value;
  }
  const value = built(sound, { objectOf: (pairs) => new Map(pairs), leafOf });
  return isReadable && value instanceof Map ? value : null;
}

/** The JSON text of a value, without white space. */
export function written(value) {
  if (value instanceof Numeral) return value.text;
  if (Array.isArray(value)) return `[${value.map(written).join(",")}]`;
  if (!(value instanceof Map)) return JSON.stringify(value);
  return `{${Array.from(value, ([name, member]) => `${JSON.stringify(name)}:${written(member)}`).join(",")}}`;
}

/** The value in ECMAScript's own objects and numbers: for judging it, not for writing it. */
export function plain(value) {
  if (value instanceof Numeral) return Number(value.text);
  if (Array.isArray(value)) return value.map(plain);
  if (!(value instanceof Map)) return value;
  return Object.fromEntries(Array.from(value, ([name, member]) => [name, plain(member)]));
}

/** The text, if it is JSON within the limits; else null. */
function soundText(text) {
  try {
    const decoded = typeof text === "string" ? text : textOf(text);
    checkLimits(decoded);
    // Asked for its verdict only: its value has lost the order of members and the text of numbers.
    JSON.parse(decoded);
    return decoded;
  } catch {
    return null;
  }
}

function valueOf(leaf) {
  switch (leaf[0]) {
    case '"':
      return leaf.includes("\\") ? JSON.parse(leaf) : leaf.slice(1, -1);
    case "t":
      return true;
    case "f":
      return false;
    case "n":
      return null;
    default:
      return new Numeral(leaf);
  }
}
