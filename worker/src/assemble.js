/** From bindings to an edge that answers: the only file that names concrete parts and reads settings. */

import { textOf } from "./contract/bytes.js";
import { isObject } from "./contract/canonical.js";
import { Dialects } from "./dialects/table.js";
import { ConfigError } from "./errors.js";
import { Flights } from "./flights.js";
import { KvGenerations } from "./generations.js";
import { Keeping } from "./keeping.js";
import { Node } from "./node.js";
import { Counters } from "./observe/counters.js";
import { Chain } from "./origins/chain.js";
import { TextPredictions } from "./origins/predict.js";
import { Upstream } from "./origins/upstream.js";
import { AiPredictions, WorkersAi } from "./origins/workers_ai.js";
import { Purging } from "./purging.js";
import { Refreshing } from "./refreshing.js";
import { Room } from "./room.js";
import { Route, Routes } from "./routes.js";
import { Scope } from "./scope.js";
import { Admin } from "./server/admin.js";
import { App } from "./server/app.js";
import { Bodies } from "./server/bodies.js";
import { Guard } from "./server/guard.js";
import { Models } from "./server/models.js";
import { lifetimesOf, settingsOf } from "./settings.js";
import { CacheApiStore } from "./stores/cache_api.js";
import { KvStore } from "./stores/kv.js";
import { MemoryStore } from "./stores/memory.js";
import { R2Store } from "./stores/r2.js";
import { Tier } from "./tier.js";
import { Tiers } from "./tiers.js";

const SECRET = /^[0-9a-f]{64}$/;
const LARGEST_IN_MEMORY_BYTES = 2 ** 20;
// What flights may hold together: with bodies and memory, half of an isolate's 128 MB.
const FLIGHTS_BYTES = 24 * 2 ** 20;

/**
 * The application of an edge, and its node.
 *
 * `env` are the bindings; `caches` the platform's, or null; `origin` where this edge is reached, such as
 * `https://edge.example`.  Throws ConfigError.
 */
export function assemble(env, { caches, origin, nowMs = Date.now }) {
  const kv = env.PREDICTION_CACHE;
  if (!kv) throw new ConfigError("no KV namespace is bound as PREDICTION_CACHE: bind one");
  const secret = secretOf(env.FORETOLD_SECRET);
  const settings = settingsOf(given(env), env);
  const { server, cache } = settings;
  const routes = new Routes(routesOf(settings, env, nowMs));
  const cacheTier = caches ? new Tier(new CacheApiStore(caches, origin), { nowMs }) : null;
  const kvTier = new Tier(new KvStore(kv, { nowMs }), { nowMs });
  const bucket = env.PREDICTION_BODIES ?? null;
  const tiers = new Tiers(
    new MemoryStore(cache.memory_limit, { largestBytes: LARGEST_IN_MEMORY_BYTES }),
    cacheTier === null ? [kvTier] : [cacheTier, kvTier],
    { bodies: bucket === null ? null : new Tier(new R2Store(bucket), { nowMs }), secret, nowMs },
  );
  const tenants = settings.apiKeys.map(({ tenant, sha256 }) => [sha256, tenant]);
  const scope = new Scope(secret, { tenants: tenants.length > 0 ? new Map(tenants) : null });
  const node = new Node({
    scope,
    routes,
    tiers,
    keeping: new Keeping(tiers, { secret, largestBytes: cache.record_limit, nowMs }),
    generations: new KvGenerations(kv, { nowMs }),
    counters: new Counters(),
    flights: new Flights({ room: new Room(FLIGHTS_BYTES), nowMs }),
    refreshing: new Refreshing(cacheTier, { nowMs }),
    nowMs,
  });
  const bodies = new Bodies({ limitBytes: server.body_limit, togetherBytes: server.bodies_together });
  const guard = new Guard({
    scope,
    dialects: new Dialects(routes),
    bodies,
    origins: server.allowed_origins,
    rateLimit: env.RATE_LIMIT ?? null,
    secret,
  });
  const admin = new Admin({
    node,
    purging: new Purging(node, secret),
    bodies,
    token: env.FORETOLD_ADMIN_TOKEN ?? null,
    bindings: { kv, bucket, caches, origin, ai: env.AI ?? null },
  });
  return { node, app: new App({ node, guard, bodies, admin, models: new Models(routes, scope) }) };
}

function secretOf(text) {
  if (typeof text === "string" && SECRET.test(text)) {
    return new Uint8Array(text.match(/../g).map((digits) => Number.parseInt(digits, 16)));
  }
  throw new ConfigError("FORETOLD_SECRET is not the 64 hex digits of the deployment's secret: set it as a secret");
}

/** The settings as they are bound: as text, or as the platform's JSON. */
function given(env) {
  const bound = env.FORETOLD_SETTINGS ?? (env.AI ? { upstreams: { workers_ai: { speaks: "workers_ai" } } } : {});
  if (isObject(bound)) return bound;
  try {
    return JSON.parse(typeof bound === "string" ? bound : textOf(new Uint8Array(bound)));
  } catch {
    throw new ConfigError("FORETOLD_SETTINGS is no JSON: give an object of settings");
  }
}

function routesOf(settings, env, nowMs) {
  const origins = new Map(settings.upstreams.map((upstream) => [upstream.name, originOf(upstream, env, nowMs)]));
  const upstreams = new Map(settings.upstreams.map((upstream) => [upstream.name, upstream]));
  const written = settings.routes.length > 0 ? settings.routes : defaultRoutes(settings);
  const routes = written.map((route) => routeOf(route, settings, { origins, upstreams }));
  const undeclared = undeclaredUpstream(settings);
  if (undeclared === null) return routes;
  const chain = new Chain([origins.get(undeclared)], { retries: 0 });
  return [...routes, new Route({ name: "undeclared", kind: "undeclared", origin: chain, stores: false })];
}

/** Without any written down: all models to the only upstream. */
function defaultRoutes({ upstreams }) {
  if (upstreams.length !== 1) return [];
  const [{ name }] = upstreams;
  return [{ name, kind: "model", models: ["*"], path: "", upstream: name, fallback: [], scope: "credential" }];
}

function originOf(upstream, env, nowMs) {
  const { name, url, speaks, binding, key, headers, timeouts } = upstream;
  if (speaks === "workers_ai") return new WorkersAi(name, env[binding], { nowMs });
  return new Upstream(name, url, { key, headers, timeouts });
}

function routeOf(settings, { cache }, { origins, upstreams }) {
  const isJson = upstreams.get(settings.upstream).speaks === "json";
  const chained = [settings.upstream, ...settings.fallback].map((name) => {
    const origin = origins.get(name);
    if (upstreams.get(name).speaks === "workers_ai") return new AiPredictions(origin);
    return isJson ? origin : new TextPredictions(origin);
  });
  const { retries } = upstreams.get(settings.upstream);
  const origin = new Chain(chained, { retries });
  return new Route({
    name: settings.name,
    kind: settings.kind,
    origin,
    first: chained.length > 1 ? new Chain(chained.slice(0, 1), { retries }) : origin,
    collapses: settings.collapse ?? true,
    models: settings.models,
    path: settings.path,
    shared: settings.scope === "shared",
    stores: settings.store ?? true,
    lifetimes: lifetimesOf(settings, cache.lifetimes),
    respectsUpstream: settings.respect_upstream ?? settings.kind !== "model",
    asksUsage: settings.ask_usage ?? true,
    passesCredential: settings.pass_credential ?? false,
    finishesAlone: settings.finish_and_store ?? false,
    revision: settings.revision ?? "",
    keyedHeaders: settings.keyed_headers ?? [],
    inertHeaders: settings.inert_headers ?? [],
  });
}

function undeclaredUpstream({ undeclared, upstreams }) {
  if (undeclared !== "") return undeclared === "off" ? null : undeclared;
  const speaking = upstreams.filter(({ speaks }) => speaks === "openai");
  return speaking.length === 1 ? speaking[0].name : null;
}
