/** From a query to its key: 64 hex digits, equal on every node and edge (rule K1). */

import { digest, utf8 } from "./bytes.js";
import { canonical } from "./canonical.js";
import { QUERY_DEFAULTS } from "./query.js";

export const VERSION = "foretold/1";

export function keyOf(query) {
  const { namespace, operation, model, revision, sample, query: text, headers, form, input } = {
    ...QUERY_DEFAULTS,
    ...query,
  };
  const members = [VERSION, namespace, operation, model, revision, sample, text, headers, form, input];
  return digest(utf8(canonical(members)));
}

/** Where object stores and KV keep the record (rule R4). */
export function recordName(namespace, key) {
  return `${VERSION}/${namespace}/${key}`;
}
