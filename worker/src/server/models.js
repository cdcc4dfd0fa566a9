/** `GET /v1/models`: the models that can be named here. */

import { presented } from "../contract/namespace.js";
import { segmentsOf, withoutV1 } from "../dialects/paths.js";
import { NotFound } from "../errors.js";

export class Models {
  #names;
  #passes;
  #scope;

  constructor(routes, scope) {
    this.#names = routes.knownModels;
    this.#passes = [...routes].some(({ kind }) => kind === "undeclared");
    this.#scope = scope;
  }

  /** The list, or one model; null for another path, and where only an upstream knows.  Throws Refused. */
  async answer({ path, headers }) {
    const segments = withoutV1(segmentsOf(path));
    if (segments[0] !== "models" || (this.#passes && this.#names.length === 0)) return null;
    await this.#scope.tenant(presented(headers));
    if (segments.length === 1) return { object: "list", data: this.#names.map(told) };
    const name = segments.slice(1).join("/");
    if (this.#names.includes(name)) return told(name);
    if (this.#passes) return null;
    throw new NotFound(`No model '${name.slice(0, 100)}'. All: GET /v1/models`, {
      param: "model",
      code: "model_not_found",
    });
  }
}

function told(name) {
  return { id: name, object: "model", created: 0, owned_by: "foretold" };
}
