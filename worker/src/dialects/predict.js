/** `POST /predict/{model}`: any JSON in, any JSON out; `{"prompt": …}` for text models. */

import { NONE } from "../contract/controls.js";
import { jsonInput } from "../contract/inputs.js";
import { hasLimit } from "../contract/storable.js";
import { readBody } from "./body.js";
import { segmentsOf } from "./paths.js";
import { problem } from "./problem.js";

export class Predict {
  async read(head, body) {
    const { value, unkeyable } = readBody(body);
    return {
      operation: "predict",
      model: segmentsOf(head.path).slice(1).join("/"),
      method: head.method,
      path: head.path,
      query: head.query,
      body,
      form: "json",
      input: unkeyable === null ? await jsonInput("predict", value) : null,
      passes: unkeyable,
      streamed: false,
      usage: false,
      limited: hasLimit(value),
      controls: NONE,
    };
  }

  tell(error) {
    return problem(error);
  }
}
