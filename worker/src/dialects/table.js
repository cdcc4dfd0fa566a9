/** Which dialect a request speaks, by method and path. */

import { NotFound, Refused } from "../errors.js";
import { matches } from "../patterns.js";
import { Declared, Undeclared } from "./declared.js";
import { OpenAI } from "./openai.js";
import { segmentsOf, withoutV1 } from "./paths.js";
import { Predict } from "./predict.js";

const OPENAI = new Map([
  ["chat/completions", new OpenAI("chat", "/chat/completions")],
  ["completions", new OpenAI("completion", "/completions")],
]);
const PREDICT = new Predict();
const METHODS = { json: ["POST", "QUERY"], get: ["GET", "HEAD"] };

export class Dialects {
  #declared;
  #undeclared;

  constructor(routes) {
    const all = [...routes];
    this.#declared = all.filter(({ kind }) => kind === "json" || kind === "get");
    this.#undeclared = all.some(({ kind }) => kind === "undeclared") ? new Undeclared() : null;
  }

  /** The dialect of a request; throws NotFound or, for a wrong method or an odd path, Refused. */
  of(method, path) {
    const segments = segmentsOf(path);
    const declared = this.#declared.find((route) => matches(path, route.path) && METHODS[route.kind].includes(method));
    if (declared !== undefined) return new Declared(declared.kind);
    const known = OPENAI.get(withoutV1(segments).join("/"));
    if (known !== undefined) return ifMethod(known, method, METHODS.json);
    if (segments[0] === "predict" && segments.length > 1) return ifMethod(PREDICT, method, METHODS.json);
    if (this.#undeclared !== null) return this.#undeclared;
    throw new NotFound(
      `No ${method} ${path.slice(0, 200)} here: this edge answers /v1/chat/completions, /v1/completions and` +
        " /predict/{model}; name an upstream in `undeclared` to pass other paths to",
      { code: "unknown_path" },
    );
  }
}

function ifMethod(dialect, method, allowed) {
  if (allowed.includes(method)) return dialect;
  throw new Refused(`${method} is not for this path: use ${allowed.join(" or ")}`, {
    code: "method_not_allowed",
    status: 405,
  });
}
