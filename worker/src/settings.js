/**
 * The settings of an edge: a JSON object in the binding FORETOLD_SETTINGS, by the names of the node's settings.
 *
 * What is unknown, impossible or contradictory is a ConfigError that names it.
 */

import { isObject } from "./contract/canonical.js";
import { CEILING_S, LIFETIMES } from "./contract/freshness.js";
import { ConfigError } from "./errors.js";

const DURATION = /^([0-9]+(?:\.[0-9]+)?) ?(ms|s|m|h|d)$/;
const UNIT_S = { ms: 0.001, s: 1, m: 60, h: 3600, d: 86_400 };
const SIZE = /^([0-9]+) ?(B|KiB|MiB)$/;
const UNIT_BYTES = { B: 1, KiB: 1024, MiB: 2 ** 20 };
const SHA256 = /^[0-9a-f]{64}$/;
const KINDS = ["model", "json", "get"];
export const BINDINGS = Object.freeze({
  cache: "PREDICTION_CACHE",
  bodies: "PREDICTION_BODIES",
  rate_limit: "RATE_LIMIT",
  metrics: "FORETOLD_METRICS",
  logs: "FORETOLD_LOGS",
  assets: "ASSETS",
});
// Bodies and memory together: with what else an isolate holds of ours, less than 100 MB.
const MOST_HELD_BYTES = 48 * 2 ** 20;
const NEVER_LISTED = new Set([
  "authorization", "x-api-key", "api-key", "cf-aig-authorization", "cookie", "content-length", "transfer-encoding",
  "connection", "host", "range", "if-none-match", "if-match", "if-modified-since", "cache-control", "accept-encoding",
]);

/** Settings of an object as it was given; `env` has the secrets that they name. */
export function settingsOf(given, env) {
  const tables = table("the settings", given, {
    server: (v) => serverOf(v),
    cache: (v) => cacheOf(v),
    upstreams: (v) => upstreamsOf(v, env),
    routes: (v) => list("routes", v, routeOf),
    api_keys: (v) => apiKeysOf("api_keys", v),
    undeclared: (v) => text("undeclared", v),
    bindings: (v) => bindingsOf(v),
  });
  const { server = serverOf({}), cache = cacheOf({}), upstreams = [], routes = [], api_keys: apiKeys = [] } = tables;
  const { undeclared = "", bindings = bindingsOf({}) } = tables;
  const settings = { server, cache, upstreams, routes, apiKeys, undeclared, bindings };
  check(settings);
  return settings;
}

function serverOf(given) {
  const found = table("server", given, {
    body_limit: (v) => size("server.body_limit", v, { most: 256 * 1024 }),
    bodies_together: (v) => size("server.bodies_together", v, { most: 48 * 2 ** 20 }),
    allowed_origins: (v) => list("server.allowed_origins", v, (item, place) => text(place, item)),
  });
  const { body_limit = 256 * 1024, bodies_together = 32 * 2 ** 20, allowed_origins = [] } = found;
  return { body_limit, bodies_together, allowed_origins };
}

function cacheOf(given) {
  const found = table("cache", given, {
    ...lifetimeReaders("cache"),
    record_limit: (v) => size("cache.record_limit", v, { most: 8 * 2 ** 20 }),
    memory_limit: (v) => size("cache.memory_limit", v, { most: 32 * 2 ** 20, least: 0 }),
    workers_cache: (v) => flag("cache.workers_cache", v),
  });
  const { record_limit = 8 * 2 ** 20, memory_limit = 8 * 2 ** 20, workers_cache = false, ...lifetimes } = found;
  return { record_limit, memory_limit, workers_cache, lifetimes: lifetimesOf(lifetimes, LIFETIMES) };
}

/** The names under which things are bound, where they are not ours. */
function bindingsOf(given) {
  const readers = Object.keys(BINDINGS).map((name) => [name, (v) => text(`bindings.${name}`, v)]);
  return { ...BINDINGS, ...table("bindings", given, Object.fromEntries(readers)) };
}

function upstreamsOf(given, env) {
  if (!isObject(given)) throw wrong("upstreams", given, "an object of upstreams by name");
  return Object.entries(given).map(([name, value]) => upstreamOf(name, value, env));
}

function upstreamOf(name, given, env) {
  const place = `upstreams.${name}`;
  const found = table(place, given, {
    url: (v) => address(`${place}.url`, v),
    speaks: (v) => choice(`${place}.speaks`, v, ["openai", "json", "workers_ai"]),
    binding: (v) => text(`${place}.binding`, v),
    key: (v) => secret(`${place}.key`, v, env),
    headers: (v) => headersOf(`${place}.headers`, v, env),
    first_byte_timeout: (v) => duration(`${place}.first_byte_timeout`, v, { most: 3600 }),
    idle_timeout: (v) => duration(`${place}.idle_timeout`, v, { most: 3600 }),
    total_timeout: (v) => duration(`${place}.total_timeout`, v, { most: 86_400 }),
    retries: (v) => number(`${place}.retries`, v, { most: 2 }),
    catalogue: (v) => flag(`${place}.catalogue`, v),
  });
  const { speaks = "openai", binding = "AI", first_byte_timeout = 120, idle_timeout = 60, total_timeout = 600 } = found;
  const { url = "", key = null, headers = [], retries = 2, catalogue = false } = found;
  if (catalogue && speaks !== "openai") {
    throw new ConfigError(`${place}.catalogue is for a Foretold node: that speaks openai, this one ${speaks}`);
  }
  if (speaks === "workers_ai") {
    if (!env[binding]) throw new ConfigError(`${place}.binding is '${binding}', and no AI is bound under that name`);
  } else if (url === "") {
    throw new ConfigError(`${place} has no url: give its base address, for OpenAI-compatible services up to /v1`);
  }
  const timeouts = { firstByteS: first_byte_timeout, idleS: idle_timeout, totalS: total_timeout };
  return { name, url, speaks, binding, key, headers, timeouts, retries, catalogue };
}

function routeOf(given, place) {
  const found = table(place, given, {
    name: (v) => text(`${place}.name`, v),
    kind: (v) => choice(`${place}.kind`, v, KINDS),
    models: (v) => list(`${place}.models`, v, (item, at) => text(at, item)),
    path: (v) => path(`${place}.path`, v),
    upstream: (v) => text(`${place}.upstream`, v),
    fallback: (v) => list(`${place}.fallback`, v, (item, at) => text(at, item)),
    scope: (v) => choice(`${place}.scope`, v, ["credential", "shared"]),
    pass_credential: (v) => flag(`${place}.pass_credential`, v),
    store: (v) => flag(`${place}.store`, v),
    ...lifetimeReaders(place),
    respect_upstream: (v) => flag(`${place}.respect_upstream`, v),
    revision: (v) => text(`${place}.revision`, v),
    ask_usage: (v) => flag(`${place}.ask_usage`, v),
    collapse: (v) => flag(`${place}.collapse`, v),
    finish_and_store: (v) => flag(`${place}.finish_and_store`, v),
    keyed_headers: (v) => list(`${place}.keyed_headers`, v, headerName),
    inert_headers: (v) => list(`${place}.inert_headers`, v, headerName),
  });
  const route = { kind: "model", models: [], path: "", fallback: [], scope: "credential", ...found, place };
  for (const name of ["name", "upstream"]) {
    if (route[name] === undefined) throw new ConfigError(`${place} has no ${name}: give one`);
  }
  if (route.scope === "shared" && route.pass_credential) {
    throw new ConfigError(`${place} shares its answers and passes credentials: that would give one caller's to others`);
  }
  if (route.kind === "model" ? route.models.length === 0 : route.path === "") {
    throw new ConfigError(`${place} takes nothing: give ${route.kind === "model" ? "models" : "a path"}`);
  }
  return route;
}

export function apiKeysOf(place, given) {
  return list(place, given, apiKeyOf);
}

function apiKeyOf(given, place) {
  const { tenant, sha256 } = table(place, given, {
    tenant: (v) => text(`${place}.tenant`, v),
    sha256: (v) => (SHA256.test(v) ? v : fail(`${place}.sha256 is no digest: give the 64 hex digits of the API key's`)),
  });
  if (!tenant || !sha256) throw new ConfigError(`${place} names no tenant or no sha256: give both`);
  return { tenant, sha256 };
}

function check({ server, cache, upstreams, routes, undeclared }) {
  if (server.bodies_together + cache.memory_limit > MOST_HELD_BYTES) {
    throw new ConfigError(
      "server.bodies_together and cache.memory_limit are more than 48 MiB together: an isolate has 128 MB for everything",
    );
  }
  const known = new Set(upstreams.map(({ name }) => name));
  for (const { place, upstream, fallback } of routes) {
    for (const name of [upstream, ...fallback]) {
      if (!known.has(name)) throw new ConfigError(`${place} names the upstream '${name}', and there is none`);
    }
  }
  if (undeclared !== "" && undeclared !== "off" && !known.has(undeclared)) {
    throw new ConfigError(`undeclared is '${undeclared}', and there is no upstream of that name`);
  }
}

export function lifetimesOf({ fresh, stale_while_revalidate, stale_if_error }, otherwise) {
  return {
    fresh_s: fresh ?? otherwise.fresh_s,
    stale_while_revalidate_s: stale_while_revalidate ?? otherwise.stale_while_revalidate_s,
    stale_if_error_s: stale_if_error ?? otherwise.stale_if_error_s,
  };
}

function lifetimeReaders(place) {
  const names = ["fresh", "stale_while_revalidate", "stale_if_error"];
  return Object.fromEntries(names.map((name) => [name, (v) => lifetime(`${place}.${name}`, v)]));
}

function lifetime(place, value) {
  if (value === "forever") return CEILING_S;
  const seconds = duration(place, value, { least: 0, most: CEILING_S });
  return Number.isInteger(seconds) ? seconds : fail(`${place} is ${shown(value)}: give whole seconds`);
}

/** The members of an object, each read by the reader of its name. */
function table(place, given, readers) {
  if (!isObject(given)) throw wrong(place, given, "an object");
  const unknown = Object.keys(given).find((name) => !Object.hasOwn(readers, name));
  if (unknown !== undefined) {
    throw new ConfigError(`${place} has no '${unknown}': known are ${Object.keys(readers).join(", ")}`);
  }
  return Object.fromEntries(Object.entries(given).map(([name, value]) => [name, readers[name](value)]));
}

function list(place, given, itemOf) {
  if (!Array.isArray(given)) throw wrong(place, given, "a list");
  return given.map((item, i) => itemOf(item, `${place}[${i}]`));
}

function text(place, value) {
  return typeof value === "string" && value !== "" ? value : fail(`${place} is ${shown(value)}: give a text`);
}

function flag(place, value) {
  return typeof value === "boolean" ? value : fail(`${place} is ${shown(value)}: give true or false`);
}

function choice(place, value, known) {
  return known.includes(value) ? value : fail(`${place} is ${shown(value)}: known are ${known.join(", ")}`);
}

function number(place, value, { least = 0, most }) {
  if (Number.isInteger(value) && value >= least && value <= most) return value;
  throw wrong(place, value, `a whole number from ${least} to ${most}`);
}

/** Seconds of a number of seconds, or of a text such as "90s" or "24h". */
function duration(place, value, { least = 0.01, most }) {
  const found = typeof value === "string" ? DURATION.exec(value) : null;
  const seconds = found === null ? value : Number(found[1]) * UNIT_S[found[2]];
  if (typeof seconds === "number" && seconds >= least && seconds <= most) return seconds;
  throw wrong(place, value, `a duration from ${least} s to ${most} s, such as "90s" or "24h"`);
}

function size(place, value, { least = 1024, most }) {
  const found = typeof value === "string" ? SIZE.exec(value) : null;
  const bytes = found === null ? value : Number(found[1]) * UNIT_BYTES[found[2]];
  if (Number.isInteger(bytes) && bytes >= least && bytes <= most) return bytes;
  throw wrong(place, value, `a size from ${least} to ${most} bytes, such as "256 KiB"`);
}

function path(place, value) {
  if (typeof value === "string" && value.startsWith("/")) return value;
  throw wrong(place, value, "a path such as /classify");
}

function address(place, value) {
  const parts = typeof value === "string" && URL.canParse(value) ? new URL(value) : null;
  const isSound = parts !== null && /^https?:$/.test(parts.protocol) && parts.username === "" && parts.search === "";
  return isSound ? value : fail(`${place} is no address: give http:// or https://, without credentials or a query`);
}

function headerName(value, place) {
  const name = text(place, value).toLowerCase();
  return NEVER_LISTED.has(name) || name.startsWith("foretold-")
    ? fail(`${place} is '${name}': credentials, framing, conditions and controls are never listed`)
    : name;
}

function headersOf(place, given, env) {
  if (!isObject(given)) throw wrong(place, given, "an object of header fields");
  return Object.entries(given).map(([name, value]) => {
    const at = `${place}.${name}`;
    return [name, isObject(value) ? secret(at, value, env) : text(at, value)];
  });
}

/** A secret stands in a binding, never in the settings. */
function secret(place, given, env) {
  const { env: name } = isObject(given) ? given : {};
  if (typeof name !== "string") throw new ConfigError(`${place}: name the secret's binding as {"env": "NAME"}`);
  return typeof env[name] === "string" ? env[name] : fail(`${place} names the secret '${name}', which is not bound`);
}

function wrong(place, value, wanted) {
  return new ConfigError(`${place} is ${shown(value)}: give ${wanted}`);
}

function fail(message) {
  throw new ConfigError(message);
}

function shown(value) {
  return (JSON.stringify(value) ?? "absent").slice(0, 80);
}
