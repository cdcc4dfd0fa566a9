/** Which origin answers a query, and by which rules: the first route that matches. */

import { LIFETIMES } from "./contract/freshness.js";
import { NotFound } from "./errors.js";
import { isPattern, matches } from "./patterns.js";

export const MODEL_OPERATIONS = new Set(["chat", "completion", "predict"]);

/**
 * `kind` is `model`, `json`, `get` or `undeclared`; `models` are patterns of names, `path` one of a declared route.
 *
 * `first` is `origin` without its fallbacks, or the same where it has none; `catalogue` that of the node it asks.
 */
export class Route {
  constructor({
    name,
    kind,
    origin,
    first = origin,
    models = [],
    path = "",
    shared = false,
    stores = true,
    lifetimes = LIFETIMES,
    respectsUpstream = false,
    asksUsage = true,
    passesCredential = false,
    finishesAlone = false,
    collapses = true,
    revision = "",
    catalogue = null,
    keyedHeaders = [],
    inertHeaders = [],
  }) {
    Object.assign(this, { name, kind, origin, first, collapses });
    Object.assign(this, { models, path, shared, stores, lifetimes, respectsUpstream, asksUsage });
    Object.assign(this, { passesCredential, finishesAlone, revision, catalogue, keyedHeaders, inertHeaders });
    Object.freeze(this);
  }

  /** Rule K9: what the route says, else the node that runs the model; of others the route's name.  Null: unknown. */
  async revisionOf(model, visit) {
    return this.asksNode ? this.catalogue.revisionOf(model, visit) : this.revision || this.name;
  }

  /** Whether the revisions of its models are those that a node tells. */
  get asksNode() {
    return this.revision === "" && this.catalogue !== null;
  }

  /** Whether a revision that a model had is known to be its own now, at once. */
  stillHas(revision, model) {
    return !this.asksNode || this.catalogue.now(model) === revision;
  }

  matches(asked) {
    if (this.kind === "model") {
      return MODEL_OPERATIONS.has(asked.operation) && this.models.some((pattern) => matches(asked.model, pattern));
    }
    if (this.kind === "undeclared") return asked.operation === "";
    return asked.operation.startsWith(`${this.kind} `) && matches(asked.path, this.path);
  }
}

export class Routes {
  #routes;

  constructor(routes) {
    this.#routes = routes;
  }

  [Symbol.iterator]() {
    return this.#routes[Symbol.iterator]();
  }

  /** The models that can be named: patterns without a wildcard. */
  get knownModels() {
    return [...new Set(this.#routes.flatMap((route) => route.models).filter((name) => name && !isPattern(name)))];
  }

  /** The first route that takes a query; throws NotFound, naming models that are known. */
  match(asked) {
    const route = this.#routes.find((candidate) => candidate.matches(asked));
    if (route !== undefined) return route;
    if (MODEL_OPERATIONS.has(asked.operation)) {
      throw new NotFound(noModel(asked.model, this.knownModels), { param: "model", code: "model_not_found" });
    }
    throw new NotFound(`nothing answers ${asked.method} ${asked.path} here`, { code: "unknown_path" });
  }
}

function noModel(model, known) {
  if (model === "") return "the query names no model: set `model`. All: GET /v1/models";
  const some = known.length > 0 ? ` Known: ${known.slice(0, 3).join(", ")}.` : "";
  return `No model '${model.slice(0, 100)}'.${some} All: GET /v1/models`;
}
