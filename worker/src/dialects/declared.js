/** Paths that the settings declare as JSON or GET routes, and those that nobody declared. */

import { utf8 } from "../contract/bytes.js";
import { NONE } from "../contract/controls.js";
import { bytesInput, jsonInput } from "../contract/inputs.js";
import { readBody } from "./body.js";
import { told } from "./openai.js";
import { problem } from "./problem.js";

const UNSAID = Object.freeze({ model: "", streamed: false, limited: false, controls: NONE });

/** One route of kind `json` or `get`: the whole body counts, nothing in it is a control. */
export class Declared {
  #kind;

  constructor(kind) {
    this.#kind = kind;
  }

  async read(head, body) {
    const read = this.#kind === "json" ? readBody(body) : null;
    const passes = read?.unkeyable ?? null;
    return {
      ...UNSAID,
      operation: `${this.#kind} ${head.path}`,
      method: head.method,
      path: head.path,
      query: head.query,
      body,
      form: read === null ? "bytes" : "json",
      input: read === null ? await bytesInput(body) : passes === null ? await jsonInput("json", read.value) : null,
      passes,
      usage: false,
    };
  }

  tell(error) {
    return problem(error);
  }
}

/** A path we know nothing of: it goes to its upstream as it came, and its answer is never kept. */
export class Undeclared {
  async read(head, body) {
    const { method, path, query } = head;
    const passes = "undeclared";
    return { ...UNSAID, operation: "", method, path, query, body, form: "bytes", input: null, passes, usage: true };
  }

  tell(error) {
    return ["application/json", utf8(JSON.stringify({ error: told(error) }))];
  }
}
