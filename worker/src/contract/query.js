/**
 * What is asked of a model, as the key sees it (rules K1 to K3, K11).
 *
 * A query is an object with the members of a key but its version: `namespace operation model revision input form
 * sample query headers`.  `operation` is one word for a known operation, else `json <path>` or `get <path>`; `input`
 * is the digest of the input in its `form`; `headers` are the keyed ones, names in lower case, sorted.
 */

export const KEYED_HEADERS = new Set([
  "anthropic-version", "anthropic-beta", "openai-beta", "openai-organization", "openai-project",
]);
export const INERT_HEADERS = new Set([
  "traceparent", "tracestate", "user-agent", "x-request-id", "idempotency-key", "content-type", "accept",
]);

/** The rest of a query where it says nothing else. */
export const QUERY_DEFAULTS = Object.freeze({ form: "json", sample: 0, query: "", headers: Object.freeze([]) });

/**
 * The headers that count, as [name, value], sorted by name (K3).
 *
 * Names come in any case; lines of one name are joined by ", " in their order (RFC 9110 section 5.3).  Around a value
 * only spaces and tabs don't count: that is all the white space HTTP knows there.
 */
export function keyedHeaders(operation, headers, { also = [] } = {}) {
  const counted = new Set([...KEYED_HEADERS, ...Array.from(also, (name) => name.toLowerCase())]);
  if (operation.startsWith("json ") || operation.startsWith("get ")) counted.add("accept-language");
  const found = new Map();
  for (const [given, value] of headers) {
    const name = given.toLowerCase();
    if (!counted.has(name)) continue;
    found.set(name, found.has(name) ? `${found.get(name)}, ${trimmed(value)}` : trimmed(value));
  }
  return [...found].sort(([one], [other]) => (one < other ? -1 : 1));
}

/** A text without the spaces and tabs around it. */
export function trimmed(text) {
  let [from, to] = [0, text.length];
  while (from < to && isBlank(text[from])) from += 1;
  while (from < to && isBlank(text[to - 1])) to -= 1;
  return text.slice(from, to);
}

/** What stands before and after the first `=`. */
export function divided(part) {
  const at = part.indexOf("=");
  return at < 0 ? [part, ""] : [part.slice(0, at), part.slice(at + 1)];
}

function isBlank(character) {
  return character === " " || character === "\t";
}
