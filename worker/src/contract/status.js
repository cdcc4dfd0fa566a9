/** What an answer says about the cache: Cache-Status (RFC 9211) and its companions (rules S1 and S2). */

import { trimmed } from "./query.js";

export const [NODE, EDGE] = ["Foretold", "Foretold-Edge"];

const SAFE_METHODS = ["GET", "HEAD", "QUERY"];
const TOKEN = /^[A-Za-z][A-Za-z0-9!#$%&'*+\-.^_`|~:/]*$/;

/** One member of the list.  Either a hit with its ttl, or forwarded for a reason of RFC 9211 section 2.2. */
export function cacheStatus({
  cache = NODE,
  hit = false,
  ttlS = null,
  forwarded = null,
  stored = false,
  collapsed = false,
  key = null,
  detail = null,
}) {
  const parts = [cache];
  if (hit) parts.push("hit");
  if (forwarded !== null) parts.push(`fwd=${forwarded}`);
  if (ttlS !== null) parts.push(`ttl=${ttlS}`);
  if (stored) parts.push("stored");
  if (collapsed) parts.push("collapsed");
  if (key !== null) parts.push(`key="${key}"`);
  if (detail !== null) parts.push(`detail=${tokenOrString(detail)}`);
  return parts.join("; ");
}

/** Our member, as text, at the end of the list that came from the origin's side. */
export function listed(before, ours) {
  return before ? `${before}, ${ours}` : ours;
}

/** A weak validator of one shape of one body. */
export function etag(bodySha256, shape) {
  return `W/"${bodySha256.slice(0, 16)}-${shape}"`;
}

/** Weak comparison of a list of validators, or `*` (RFC 9110 section 13.1.2). */
export function etagMatches(ifNoneMatch, tag) {
  if (trimmed(ifNoneMatch) === "*") return true;
  return ifNoneMatch.split(",").some((part) => opaque(trimmed(part)) === opaque(tag));
}

/** What a client's own cache may do: revalidate hits of safe methods, keep nothing else. */
export function clientCacheControl(method, { hit }) {
  return hit && SAFE_METHODS.includes(method) ? "private, no-cache" : "no-store";
}

export function mayAnswer304(method) {
  return SAFE_METHODS.includes(method);
}

function opaque(validator) {
  return validator.startsWith("W/") ? validator.slice(2) : validator;
}

/** A structured-field token where the text is one, else a string (RFC 8941 section 3.3). */
function tokenOrString(text) {
  if (TOKEN.test(text)) return text;
  const printable = text.replace(/[^ -~]/gu, "?");
  return `"${printable.replace(/[\\"]/g, "\\$&")}"`;
}
