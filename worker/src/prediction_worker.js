/**
 * Foretold at the edge: the Worker's entry.  What happens to a query stands in node.js.
 *
 * Bindings: PREDICTION_CACHE (KV), FORETOLD_SECRET, FORETOLD_SETTINGS; perhaps PREDICTION_BODIES (R2), AI, RATE_LIMIT,
 * ASSETS, FORETOLD_METRICS (Analytics Engine), FORETOLD_LOGS (R2), FORETOLD_API_KEYS, FORETOLD_ADMIN_TOKEN, and the
 * secrets that the settings name.
 */

import { WorkerEntrypoint, exports } from "cloudflare:workers";

import { assemble, namespaceOf } from "./assemble.js";
import { problem } from "./dialects/problem.js";
import { ConfigError } from "./errors.js";
import { recordFrom } from "./stores/front.js";
import { KvStore } from "./stores/kv.js";

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

/** Records of KV as answers: what Workers Cache stands before, where `cache.workers_cache` is set. */
export class Records extends WorkerEntrypoint {
  fetch(request) {
    return recordFrom(new KvStore(namespaceOf(this.env), { nowMs: Date.now }), request);
  }

  /** Only from inside an entrypoint is its own cache purged. */
  async purge({ tags }) {
    await this.ctx.cache?.purge({ tags });
  }
}

/** One for all requests of an isolate: what it has in memory is worth keeping. */
function appOf(request, env) {
  let found = assembled.get(env);
  if (found === undefined) {
    const { origin } = new URL(request.url);
    found = assemble(env, { caches, origin, inner: exports.Records }).app;
    assembled.set(env, found);
  }
  return found;
}
