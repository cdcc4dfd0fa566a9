/** The OpenAI dialect: chat and text completions, whole and streamed. */

import { bodyControls } from "../contract/aliases.js";
import { utf8 } from "../contract/bytes.js";
import { isObject } from "../contract/canonical.js";
import { NONE } from "../contract/controls.js";
import { jsonInput, mustPass } from "../contract/inputs.js";
import { hasLimit } from "../contract/storable.js";
import { Malformed, Refused } from "../errors.js";
import { fromRawMembers, rawMembers } from "../forwarding.js";
import { readBody } from "./body.js";

export class OpenAI {
  #operation;
  #path;

  constructor(operation, path) {
    this.#operation = operation;
    this.#path = path;
  }

  async read(head, given) {
    const { value, unkeyable } = readBody(given);
    if (!isObject(value)) throw new Malformed("the body must be a JSON object");
    const model = value.model ?? null;
    if (model !== null && typeof model !== "string") throw new Malformed("`model` must be a text", { param: "model" });
    const passes = unkeyable ?? mustPass(this.#operation, value);
    let [controls, body] = [NONE, given];
    if (isObject(value.cache) && passes !== "unkeyable-repeat") {
      controls = bodyControls(value.cache);
      const members = rawMembers(body);
      members.delete("cache");
      body = fromRawMembers(members);
    }
    const streamed = value.stream === true;
    const ignored = head.controls.ignored;
    return {
      operation: this.#operation,
      model: model ?? "",
      method: head.method,
      path: this.#path,
      query: head.query,
      body,
      form: "json",
      input: passes === null ? await jsonInput(this.#operation, value, { ignored }) : null,
      passes,
      streamed,
      usage: !streamed || (isObject(value.stream_options) && value.stream_options.include_usage === true),
      limited: hasLimit(value),
      controls,
    };
  }

  tell(error) {
    return ["application/json", utf8(JSON.stringify({ error: told(error) }))];
  }
}

/** An error as OpenAI's clients read it. */
export function told(error) {
  const { message, code, param } = error;
  return { message, type: typeOf(error), param: param ?? null, code };
}

function typeOf(error) {
  if (!(error instanceof Refused) || error.status >= 500) return "server_error";
  return error.status === 401 ? "authentication_error" : "invalid_request_error";
}
