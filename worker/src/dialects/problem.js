/** Errors as RFC 9457 problem details, for dialects without an error shape of their own. */

import { utf8 } from "../contract/bytes.js";

export function problem(error) {
  const { status, code, message, param } = error;
  const members = { title: code.replaceAll("_", " "), status, detail: message, code };
  return ["application/problem+json", utf8(JSON.stringify(param === null ? members : { ...members, param }))];
}
