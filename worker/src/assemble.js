/** From bindings to an edge that answers: the only file that names concrete parts and reads settings. */

import { Catalogue } from "./catalogue.js";
import { textOf } from "./contract/bytes.js";
import { isObject } from "./contract/canonical.js";
import { Dialects } from "./dialects/table.js";
import { ConfigError } from "./errors.js";
import { Flights } from "./flights.js";
import { KvGenerations } from "./generations.js";
import { Keeping } from "./keeping.js";
import { Node } from "./node.js";
import { Counters } from "./observe/counters.js";
import { Logs } from "./observe/logs.js";
import { Metrics } from "./observe/metrics.js";
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
import { Page } from "./server/page.js";
import { apiKeysOf, lifetimesOf, settingsOf } from "./settings.js";
import { CacheApiStore } from "./stores/cache_api.js";
import { FrontStore } from "./stores/front.js";
import { KvStore } from "./stores/kv.js";
import { MemoryStore } from "./stores/memory.js";
import { R2Store } from "./stores/r2.js";
import { Tier } from "./tier.js";
import { Tiers } from "./tiers.js";

const SECRET = /^[0-9a-f]{64}$/;
const LARGEST_IN_MEMORY_BYTES = 2 ** 20;
// What flights may hold together.
const FLIGHTS_BYTES = 20 * 2 ** 20;

/**
 * The application of an edge, and its node.
 *
 * `env` are the bindings; `caches` the platform's, or null; `origin` where this edge is reached, such as
 * `https://edge.example`; `inner` the entrypoint that Workers Cache stands before.  Throws ConfigError.
 */
export function assemble(env, { caches, origin, inner = null, nowMs = Date.now }) {
  const secret = secretOf(env.FORETOLD_SECRET);
  const settings = settingsOf(given(env), env);
  const { server, cache } = settings;
  const bound = boundBy(settings.bindings, env);
  const kv = bound.cache ?? throwUnbound(settings.bindings);
  const reached = new Map(settings.upstreams.map((upstream) => [upstream.name, originOf(upstream, env, nowMs)]));
  const catalogues = cataloguesOf(settings, reached, { kv, secret, nowMs });
  const routes = new Routes(routesOf(settings, reached, catalogues));
  const cacheTier = caches ? new Tier(new CacheApiStore(caches, origin), { nowMs }) : null;
  const front = cache.workers_cache ? inner : null;
  const nearest = front === null ? cacheTier : new Tier(new FrontStore(front), { nowMs });
  const kvTier = new Tier(new KvStore(kv, { nowMs }), { nowMs });
  const { bodies: bucket, logs: logBucket, metrics, assets } = bound;
  const tiers = new Tiers(
    new MemoryStore(cache.memory_limit, { largestBytes: LARGEST_IN_MEMORY_BYTES }),
    nearest === null ? [kvTier] : [nearest, kvTier],
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
    catalogues: [...catalogues.values()],
    metrics: metrics === null ? null : new Metrics(metrics),
    logs: logBucket === null ? null : new Logs(logBucket, { nowMs }),
    nowMs,
  });
  const bodies = new Bodies({ limitBytes: server.body_limit, togetherBytes: server.bodies_together });
  const guard = new Guard({
    scope,
    dialects: new Dialects(routes),
    bodies,
    origins: server.allowed_origins,
    rateLimit: bound.rate_limit,
    secret,
  });
  const admin = new Admin({
    node,
    purging: new Purging(node, secret),
    bodies,
    token: env.FORETOLD_ADMIN_TOKEN ?? null,
    bindings: { kv, bucket, caches, origin, ai: env.AI ?? null, logs: logBucket, front, assets },
  });
  const app = new App({ node, guard, bodies, admin, models: new Models(routes, scope), page: new Page(assets) });
  return { node, app };
}

/** The KV namespace, for the entrypoint that has nothing to do but read it.  Throws ConfigError. */
export function namespaceOf(env) {
  const { bindings } = settingsOf(given(env), env);
  return boundBy(bindings, env).cache ?? throwUnbound(bindings);
}

/** What is bound under the names of the settings; null for what isn't. */
function boundBy(bindings, env) {
  return Object.fromEntries(Object.entries(bindings).map(([name, binding]) => [name, env[binding] ?? null]));
}

function throwUnbound({ cache }) {
  throw new ConfigError(`no KV namespace is bound as ${cache}: bind one`);
}

function secretOf(text) {
  if (typeof text === "string" && SECRET.test(text)) {
    return new Uint8Array(text.match(/../g).map((digits) => Number.parseInt(digits, 16)));
  }
  throw new ConfigError("FORETOLD_SECRET is not the 64 hex digits of the deployment's secret: set it as a secret");
}

/** The settings as they are bound: as text, or as the platform's JSON. */
function given(env) {
  const settings = jsonIn(env, "FORETOLD_SETTINGS", "an object of settings");
  const found = settings ?? (env.AI ? { upstreams: { workers_ai: { speaks: "workers_ai" } } } : {});
  const keys = jsonIn(env, "FORETOLD_API_KEYS", "a list of API keys, as api_keys of the settings");
  if (keys === null || !isObject(found)) return found;
  const written = found.api_keys === undefined ? [] : apiKeysOf("api_keys", found.api_keys);
  return { ...found, api_keys: [...written, ...apiKeysOf("FORETOLD_API_KEYS", keys)] };
}

function jsonIn(env, name, wanted) {
  const bound = env[name] ?? null;
  if (bound === null || isObject(bound) || Array.isArray(bound)) return bound;
  try {
    return JSON.parse(typeof bound === "string" ? bound : textOf(new Uint8Array(bound)));
  } catch {
    throw new ConfigError(`${name} is no JSON: give ${wanted}`);
  }
}

function routesOf(settings, reached, catalogues) {
  const upstreams = new Map(settings.upstreams.map((upstream) => [upstream.name, upstream]));
  const written = settings.routes.length > 0 ? settings.routes : defaultRoutes(settings);
  const routes = written.map((route) => routeOf(route, settings, { reached, upstreams, catalogues }));
  const undeclared = undeclaredUpstream(settings);
  if (undeclared === null) return routes;
  const chain = new Chain([reached.get(undeclared)], { retries: 0 });
  return [...routes, new Route({ name: "undeclared", kind: "undeclared", origin: chain, stores: false })];
}

/** Of the upstreams that are nodes, by name. */
function cataloguesOf(settings, reached, parts) {
  const nodes = settings.upstreams.filter(({ catalogue }) => catalogue);
  return new Map(nodes.map(({ name }) => [name, new Catalogue(reached.get(name), parts)]));
}

/** Without any written down: all models to the only upstream. */
function defaultRoutes({ upstreams }) {
  if (upstreams.length !== 1) return [];
  const [{ name }] = upstreams;
  return [{ name, kind: "model", models: ["*"], path: "", upstream: name, fallback: [], scope: "credential" }];
}

function originOf(upstream, env, nowMs) {
  const { name, url, speaks, binding, key, headers, timeouts } = upstream;
  if (speaks === "workers_ai") return new WorkersAi(name, env[binding], { nowMs, timeouts });
  return new Upstream(name, url, { key, headers, timeouts });
}

function routeOf(settings, { cache }, { reached, upstreams, catalogues }) {
  const isJson = upstreams.get(settings.upstream).speaks === "json";
  const chained = [settings.upstream, ...settings.fallback].map((name) => {
    const origin = reached.get(name);
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
    catalogue: settings.kind === "model" ? (catalogues.get(settings.upstream) ?? null) : null,
    keyedHeaders: settings.keyed_headers ?? [],
    inertHeaders: settings.inert_headers ?? [],
  });
}

function undeclaredUpstream({ undeclared, upstreams }) {
  if (undeclared !== "") return undeclared === "off" ? null : undeclared;
  const speaking = upstreams.filter(({ speaks }) => speaks === "openai");
  return speaking.length === 1 ? speaking[0].name : null;
}
