/** The Worker as it is deployed, with the platform's own KV, R2, cache and rate limit. */

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { connect } from "node:net";
import { after, before, test } from "node:test";

import { Origin } from "../emulators/origin.js";
import { running, until } from "./running.js";

const ENTRY = "src/prediction_worker.js";
const SOURCES = new URL("../../src/", import.meta.url);
const MOST_BYTES = 2 ** 20;
const ADMIN = { authorization: "Bearer admin" };
let origin;
let edge;

function bindings(more = {}) {
  return {
    FORETOLD_SECRET: "00".repeat(32),
    FORETOLD_ADMIN_TOKEN: "admin",
    FORETOLD_SETTINGS: JSON.stringify({ upstreams: { fake: { url: origin.url } } }),
    ...more,
  };
}

before(async () => {
  origin = await Origin.start();
  edge = await running(ENTRY, { kvNamespaces: ["PREDICTION_CACHE"], bindings: bindings() });
});
after(async () => {
  await edge.stop();
  await origin.stop();
});

test("a miss, then a hit, and the record is in the platform's KV and nowhere else by another name", async () => {
  const miss = await edge.chat("hello");
  const hit = await edge.chat("hello");

  assert.match(miss.cacheStatus, /^Foretold-Edge; fwd=uri-miss; stored/);
  assert.match(hit.cacheStatus, /^Foretold-Edge; hit/);
  assert.equal(hit.body, miss.body);
  const kv = await edge.miniflare.getKVNamespace("PREDICTION_CACHE");
  await until(async () => (await kv.list()).keys.length === 2);
  const names = (await kv.list()).keys.map(({ name }) => name);
  assert.deepEqual(names.map((name) => /^foretold\/1\/([0-9a-f]{64}|generation)\//.test(name)), [true, true]);
});

test("the self-test tries KV, R2, the cache and a query for real, and says what is not bound", async () => {
  const { status, body } = await edge.post("/-/selftest", {}, ADMIN);

  assert.equal(status, 200, body);
  const off = { logs: "off", workers_cache: "off", page: "off", ai: "off" };
  assert.deepEqual(JSON.parse(body).parts, { kv: "ok", r2: "ok", cache: "ok", query: "ok", ...off });
});

test("health is open, and all else under /-/ asks for the token", async () => {
  const health = await edge.send("GET", "/-/health");
  const closed = [
    await edge.send("GET", "/-/stats"),
    await edge.post("/-/selftest", {}),
    await edge.post("/-/cache/purge", { everything: true }, { authorization: "Bearer wrong" }),
  ];

  assert.equal(JSON.parse(health.body).status, "ok");
  assert.equal(health.headers["cache-control"], "no-store");
  assert.deepEqual(closed.map(({ status }) => status), [401, 401, 401]);
  assert.equal((await edge.send("GET", "/-/nothing")).status, 404);
  assert.equal((await edge.send("GET", "/-/selftest")).status, 405);
});

test("a purge that names nothing, or two things, is refused", async () => {
  for (const asked of [{}, { model: "m", tag: "a" }, { modle: "m" }, { everything: 1 }, { key: "0".repeat(64) }]) {
    const { status, body } = await edge.post("/-/cache/purge", asked, ADMIN);
    assert.equal(status, 400);
    assert.equal(JSON.parse(body).code, "bad_purge");
  }
});

test("every answer that isn't a safe method's hit says no-store", async () => {
  const answers = [
    await edge.chat("a"),
    await edge.chat("a"),
    await edge.chat("a", { store: true }),
    await edge.send("GET", "/v1/models"),
    await edge.post("/v1/chat/completions", []),
    await edge.chat("b", { headers: { "cache-control": "only-if-cached" } }),
  ];

  assert.deepEqual(answers.map(({ headers }) => headers["cache-control"]), answers.map(() => "no-store"));
});

test("a credential that the platform can't read opens nothing", async () => {
  const answers = [];
  for (const byte of ["\xe9", "\xff"]) {
    answers.push(await rawly(`POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${byte}\r\n`));
  }

  assert.ok(answers.every((answer) => answer.startsWith("HTTP/1.1 400") && answer.includes("bad_header")));
});

test("QUERY asks what POST asks", async () => {
  await edge.chat("by post");

  const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: "by post" }] });
  const answer = await rawly(`QUERY /v1/chat/completions HTTP/1.1\r\nhost: a\r\n`, body);

  assert.match(answer, /^HTTP\/1.1 200/);
  assert.match(answer, /Foretold-Edge; hit/i);
  assert.match(answer, /cache-control: private, no-cache/i);
});

test("callers are told to wait when the platform counts too many", async () => {
  const limited = await running(ENTRY, {
    kvNamespaces: ["PREDICTION_CACHE"],
    ratelimits: { RATE_LIMIT: { simple: { limit: 2, period: 60 } } },
    bindings: bindings(),
  });
  try {
    const answers = [];
    for (const key of ["a", "a", "a", "b"]) {
      answers.push(await limited.chat("hello", { headers: { authorization: `Bearer ${key}` } }));
    }

    assert.deepEqual(answers.map(({ status }) => status), [200, 200, 429, 200]);
    assert.equal(JSON.parse(answers[2].body).error.code, "rate_limited");
  } finally {
    await limited.stop();
  }
});

for (const [what, more, wanted] of [
  ["no secret", { FORETOLD_SECRET: "short" }, "FORETOLD_SECRET"],
  ["an unknown setting", { FORETOLD_SETTINGS: '{"upstream": {}}' }, "has no 'upstream'"],
  ["settings that are no JSON", { FORETOLD_SETTINGS: "{" }, "FORETOLD_SETTINGS is no JSON"],
]) {
  test(`with ${what} every request says what is wrong`, async () => {
    const broken = await running(ENTRY, { kvNamespaces: ["PREDICTION_CACHE"], bindings: bindings(more) });
    try {
      const { status, body } = await broken.chat("hello");

      assert.equal(status, 503);
      assert.equal(JSON.parse(body).code, "config_invalid");
      assert.ok(body.includes(wanted), body);
    } finally {
      await broken.stop();
    }
  });
}

test("the script is smaller than 1 MiB", () => {
  const files = readdirSync(SOURCES, { recursive: true }).filter((file) => file.endsWith(".js"));
  const bytes = files.reduce((sum, file) => sum + readFileSync(new URL(file, SOURCES)).length, 0);

  assert.ok(files.length > 50);
  assert.ok(bytes < MOST_BYTES, `${bytes} bytes`);
});

/** The answer to a request whose head goes out byte for byte. */
function rawly(head, body = "{}") {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(edge.url.port), edge.url.hostname);
    let told = "";
    socket.on("error", reject);
    socket.on("data", (data) => (told += data.toString("latin1")));
    socket.on("close", () => resolve(told));
    const fields = `content-type: application/json\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n`;
    socket.write(Buffer.from(head + fields + body, "latin1"));
  });
}
