/** What this side makes of a vector, in whichever JavaScript runs it. */

import { hex } from "../src/contract/bytes.js";
import { ForetoldError, Refused, Unkeyable } from "../src/contract/errors.js";
import { NotAnAnswer } from "../src/projections/fold.js";
import { OPERATIONS as OF_ANSWERS } from "./answers.js";
import { OPERATIONS as OF_KEYS } from "./keys.js";
import { OPERATIONS as OF_PROJECTIONS } from "./projections.js";
import { STATUSES, bytesOf } from "./values.js";

export const OPERATIONS = { ...OF_KEYS, ...OF_ANSWERS, ...OF_PROJECTIONS };
// Node's own code for it, and what workerd says.
const NOT_UTF8 = /ERR_ENCODING_INVALID_ENCODED_DATA|Failed to decode input/;

/** `bytes` in hex, any other `out` as JSON has it, or the `error`; a `fault` is one that no vector may want. */
export async function outcomeOf({ op, in: given }) {
  if (!Object.hasOwn(OPERATIONS, op)) return { fault: `there is no operation ${op}` };
  try {
    const out = await OPERATIONS[op](given);
    return out instanceof Uint8Array ? { bytes: hex(out) } : JSON.parse(JSON.stringify({ out }));
  } catch (error) {
    return errorOf(error);
  }
}

/** What a vector wants, told as its outcome is. */
export function wanted(vector, outcome) {
  if ("error" in vector) return { error: vector.error };
  return "bytes" in outcome ? { bytes: hex(bytesOf(vector.out)) } : { out: vector.out };
}

function errorOf(error) {
  if (error instanceof Unkeyable) return { error: error.why };
  if (error instanceof Refused && error.status !== STATUSES[error.code]) {
    return { fault: `${error.code} is told with ${error.status}` };
  }
  if (error instanceof ForetoldError) return { error: error.code };
  if (error instanceof NotAnAnswer) return { error: "not_an_answer" };
  if (error instanceof RangeError) return { error: "unpackable" };
  if (error instanceof TypeError && NOT_UTF8.test(`${error.code} ${error.message}`)) return { error: "not_utf8" };
  return { fault: `${error.name}: ${error.message}` };
}
