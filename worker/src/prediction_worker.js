/**
 * Foretold at the edge: the Worker's entry.  What happens to a query stands in node.js.
 *
 * Bindings: PREDICTION_CACHE (KV), FORETOLD_SECRET, FORETOLD_SETTINGS; perhaps PREDICTION_BODIES (R2), AI, RATE_LIMIT,
 * FORETOLD_ADMIN_TOKEN, and the secrets that the settings name.
 */

import { assemble } from "./assemble.js";
import { problem } from "./dialects/problem.js";
import { ConfigError } from "./errors.js";

const assembled = new WeakMap();

export default {
  async fetch(request, env, ctx) {
    const later = (promise) => ctx.waitUntil(promise);
    try {
      return await appOf(request, env).fetch(request, { later });
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      const [kind, body] = problem(error);
      return new Response(body, { status: 503, headers: { "content-type": kind, "cache-control": "no-store" } });
    }
  },
};

/** One for all requests of an isolate: what it has in memory is worth keeping. */
function appOf(request, env) {
  let found = assembled.get(env);
  if (found === undefined) {
    found = assemble(env, { caches, origin: new URL(request.url).origin }).app;
    assembled.set(env, found);
  }
  return found;
}
