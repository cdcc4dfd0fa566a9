/** Vectors of float32, as lists of JSON numbers and as base64 (rules P1 and P3): exact both ways. */

// Anything nearer to zero than this is a finite float32 once rounded: (2 - 2^-24) · 2^127.
export const BEYOND = (2 - 2 ** -24) * 2 ** 127;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
const MOST_DIGITS = 9;

/** Each number as the nearest float32, little-endian; each must lie within `BEYOND`. */
export function ofNumbers(numbers) {
  const view = new DataView(new ArrayBuffer(4 * numbers.length));
  numbers.forEach((number, place) => view.setFloat32(4 * place, number, true));
  return new Uint8Array(view.buffer);
}

/** The floats that a base64 text tells, little-endian; null if it is none of one or more finite floats. */
export function ofBase64(text) {
  if (text === "" || !BASE64.test(text)) return null;
  const content = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return content.length % 4 === 0 && floats(content).every(Number.isFinite) ? content : null;
}

/** How long a vector is, told in either form; null if it is none: empty, or not of finite floats. */
export function dimensions(embedding) {
  if (typeof embedding === "string") {
    const content = ofBase64(embedding);
    return content === null ? null : content.length / 4;
  }
  if (!Array.isArray(embedding) || embedding.length === 0) return null;
  return embedding.every((x) => typeof x === "number" && Math.abs(x) < BEYOND) ? embedding.length : null;
}

export function asBase64(content) {
  return btoa(Array.from(content, (byte) => String.fromCharCode(byte)).join(""));
}

/** The JSON list of the floats, each with the fewest digits that read back to it, as ECMAScript writes them. */
export function asNumbers(content) {
  return `[${floats(content).map(textOf).join(",")}]`;
}

function textOf(x) {
  if (Object.is(x, -0)) return "-0.0"; // ECMAScript writes it without its sign
  for (let digits = 1; digits < MOST_DIGITS; digits += 1) {
    const shorter = Number(x.toPrecision(digits));
    if (Math.fround(shorter) === x) return String(shorter);
  }
  return String(Number(x.toPrecision(MOST_DIGITS)));
}

function floats(content) {
  const view = new DataView(content.buffer, content.byteOffset, content.byteLength);
  return Array.from({ length: content.length / 4 }, (_, place) => view.getFloat32(4 * place, true));
}
