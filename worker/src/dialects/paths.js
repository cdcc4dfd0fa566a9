/** Paths, parsed once: segments are decoded, and forms that two parsers could read in two ways are refused. */

import { Refused } from "../errors.js";

const HALF_AN_ESCAPE = /%(?![0-9A-Fa-f]{2})/;
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/u;

/**
 * The decoded segments of a raw path, doubled and final slashes tolerated.
 *
 * Throws Refused for dot segments, half escapes, encoded slashes, backslashes and NULs, and what isn't UTF-8.
 */
export function segmentsOf(path) {
  const segments = [];
  for (const raw of path.split("/")) {
    if (HALF_AN_ESCAPE.test(raw)) throw bad();
    const segment = unquoted(raw);
    if (segment === "." || segment === ".." || /[;/\\]/.test(segment) || UNPRINTABLE.test(segment)) throw bad();
    if (segment !== "") segments.push(segment);
  }
  return segments;
}

export function withoutV1(segments) {
  const first = segments.findIndex((segment) => segment !== "v1");
  return first < 0 ? [] : segments.slice(first);
}

function unquoted(raw) {
  try {
    return decodeURIComponent(raw);
  } catch {
    throw new Refused("the path is not UTF-8", { code: "bad_path" });
  }
}

function bad() {
  return new Refused("the path has a dot segment or a character that paths may not have", { code: "bad_path" });
}
