/** Settings are checked value by value, and what is wrong is named. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { ConfigError } from "../src/errors.js";
import { settingsOf } from "../src/settings.js";

const FAKE = { fake: { url: "https://api.example/v1" } };

function withRoute(route) {
  return { upstreams: FAKE, routes: [{ name: "r", upstream: "fake", models: ["*"], ...route }] };
}

test("what isn't said has the node's defaults", () => {
  const { server, cache, upstreams } = settingsOf({ upstreams: FAKE }, {});

  assert.equal(server.body_limit, 256 * 1024);
  assert.deepEqual(cache.lifetimes, { fresh_s: 86_400, stale_while_revalidate_s: 86_400, stale_if_error_s: 604_800 });
  assert.equal(upstreams[0].retries, 2);
});

test("durations and sizes are read as the node reads them", () => {
  const cache = { fresh: "24h", stale_while_revalidate: "90s", stale_if_error: "forever", memory_limit: "4 MiB" };

  const read = settingsOf({ cache }, {}).cache;

  const lifetimes = { fresh_s: 86_400, stale_while_revalidate_s: 90, stale_if_error_s: 2_592_000 };
  assert.deepEqual(read.lifetimes, lifetimes);
  assert.equal(read.memory_limit, 4 * 2 ** 20);
});

test("a secret comes from a binding, never from the settings", () => {
  const upstreams = { fake: { url: "https://api.example/v1", key: { env: "API_KEY" } } };

  assert.equal(settingsOf({ upstreams }, { API_KEY: "s" }).upstreams[0].key, "s");
  assert.throws(() => settingsOf({ upstreams }, {}), /'API_KEY', which is not bound/);
});

for (const [what, given, wanted] of [
  ["an unknown table", { cash: {} }, /has no 'cash': known are server, cache/],
  ["an unknown member", { cache: { fesh: 1 } }, /cache has no 'fesh'/],
  ["a duration that is none", { cache: { fresh: "soon" } }, /cache.fresh is "soon": give a duration/],
  ["half seconds of a lifetime", { cache: { fresh: "1.5s" } }, /whole seconds/],
  ["a life over the ceiling", { cache: { fresh: "31d" } }, /cache.fresh is "31d"/],
  ["a body limit over the edge's", { server: { body_limit: "1 MiB" } }, /server.body_limit is "1 MiB"/],
  ["an address that is none", { upstreams: { x: { url: "api.example" } } }, /upstreams.x.url is no address/],
  ["an address with credentials", { upstreams: { x: { url: "https://a:b@c.example" } } }, /is no address/],
  ["an upstream without address", { upstreams: { x: {} } }, /upstreams.x has no url/],
  ["a secret written down", { upstreams: { x: { url: "https://a.example", key: "s3cret" } } }, /\{"env": "NAME"\}/],
  ["an AI that isn't bound", { upstreams: { x: { speaks: "workers_ai" } } }, /no AI is bound/],
  ["a route to nowhere", withRoute({ upstream: "other" }), /routes\[0\] names the upstream 'other'/],
  ["a route that takes nothing", withRoute({ models: [] }), /routes\[0\] takes nothing: give models/],
  ["a shared route with credentials", withRoute({ scope: "shared", pass_credential: true }), /passes credentials/],
  ["a credential among keyed headers", withRoute({ keyed_headers: ["Authorization"] }), /are never listed/],
  ["an API key that is no digest", { api_keys: [{ tenant: "web", sha256: "key" }] }, /is no digest/],
  ["undeclared paths to nowhere", { undeclared: "x" }, /undeclared is 'x'/],
]) {
  test(`${what} is refused`, () => {
    assert.throws(
      () => settingsOf(given, {}),
      (error) => error instanceof ConfigError && wanted.test(error.message) && !error.message.includes("s3cret"),
    );
  });
}

/** The names that a table knows, from what it says of one that it doesn't. */
function knownIn(given, env = {}) {
  try {
    settingsOf(given, env);
  } catch (error) {
    return /known are (.*)$/.exec(error.message)[1].split(", ");
  }
  throw new Error("it was not refused");
}

test("the reference has every setting, and no other", () => {
  const odd = { unheard_of: 1 };
  const tables = {
    "server.": knownIn({ server: odd }),
    "cache.": knownIn({ cache: odd }),
    "upstreams.NAME.": knownIn({ upstreams: { x: odd } }),
    "routes[].": knownIn({ routes: [odd] }),
    "api_keys[].": knownIn({ api_keys: [odd] }),
    "bindings.": knownIn({ bindings: odd }),
    "": knownIn(odd).filter((name) => name === "undeclared"),
  };
  const known = Object.entries(tables).flatMap(([place, names]) => names.map((name) => place + name));

  const text = readFileSync(new URL("../../docs/reference/edge-settings.md", import.meta.url), "utf8");
  const [, ours] = text.split("## What the Worker itself reads");
  const told = [...ours.matchAll(/^\| `([^`]+)` \|/gm)].map(([, name]) => name);

  assert.deepEqual(told.sort(), known.sort());
});
