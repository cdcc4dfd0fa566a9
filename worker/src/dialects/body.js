/** JSON bodies as dialects read them: keyed, or known to pass and why (rule K8). */

import { textOf } from "../contract/bytes.js";
import { isObject, read } from "../contract/canonical.js";
import { Unkeyable } from "../contract/errors.js";

/**
 * A settled value; or, where `unkeyable` says why there is none, the members that say where a query goes and how it is
 * answered.  Throws Malformed for what is not JSON.
 */
export function readBody(body) {
  try {
    return { value: read(body), unkeyable: null };
  } catch (error) {
    if (!(error instanceof Unkeyable)) throw error;
    return { value: routingMembers(body), unkeyable: `unkeyable-${error.why}` };
  }
}

function routingMembers(body) {
  const value = JSON.parse(textOf(body));
  if (!isObject(value)) return {};
  const { model, stream, stream_options: streamOptions, cache } = value;
  return { model, stream, stream_options: streamOptions, cache };
}
