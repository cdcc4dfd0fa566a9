/** In front of a node: the keys of its own models are those of its catalogue, read again within 30 s (rule K9). */

import assert from "node:assert/strict";
import { test } from "node:test";

import { unpack } from "../../src/contract/record.js";
import { inFront } from "./in_front.js";
import { until } from "./running.js";

const BESIDE = { "x-test-edge": "here#2" };
const { origin, edge } = await inFront((origin) => {
  origin.models = [{ id: "m", revision: "one" }, { id: "alias" }];
  return { settings: { upstreams: { node: { url: origin.url, catalogue: true } } } };
});

async function recordNames() {
  return (await edge.tell("look")).kv.names.filter((name) => /^foretold\/1\/[0-9a-f]{64}\//.test(name));
}

test("a record is of the revision that the node tells", async () => {
  await edge.chat("hello");
  await until(async () => (await recordNames()).length === 1);

  const [name] = await recordNames();
  const [namespace, key] = name.split("/").slice(2);
  const blob = new Uint8Array(Buffer.from((await edge.tell("value", { name })).base64, "base64"));
  assert.equal((await unpack(blob, new Uint8Array(32), { key, namespace })).revision, "one");
});

test("another model under the same name is another key within 30 s", async () => {
  await edge.chat("hello");
  assert.ok((await edge.chat("hello")).isHit);
  origin.models = [{ id: "m", revision: "two" }];

  await edge.tell("advance", { seconds: 30 });

  assert.match((await edge.chat("hello")).cacheStatus, /fwd=uri-miss; stored/);
});

test("it is read again behind an answer before its time is up", async () => {
  await edge.chat("hello");
  await edge.tell("advance", { seconds: 25 });
  await edge.chat("hello");
  await until(async () => (await edge.stats()).catalogues[0].reads === 2);
  await edge.tell("advance", { seconds: 25 });

  assert.ok((await edge.chat("hello")).isHit);
});

test("a model that the node doesn't run itself passes, unless its route says the revision", async () => {
  const passed = await edge.chat("hello", { model: "alias" });
  const upstreams = { node: { url: origin.url, catalogue: true } };
  const routes = [{ name: "all", models: ["*"], upstream: "node", revision: "mine" }];
  await edge.tell("world", { settings: { upstreams, routes } });

  const kept = await edge.chat("hello", { model: "alias" });

  assert.match(passed.cacheStatus, /fwd=bypass; detail=not-in-catalogue/);
  assert.match(kept.cacheStatus, /fwd=uri-miss; stored/);
});

test("while the node can't be asked what was known goes on, and a new isolate has it from KV", async () => {
  await edge.chat("hello");
  await until(async () => (await edge.tell("look")).kv.names.some((name) => name.includes("/catalogue/")));
  await until(async () => (await recordNames()).length === 1);
  origin.models = null;
  await edge.tell("advance", { seconds: 40 });

  const answers = [await edge.chat("hello"), await edge.chat("hello", { headers: BESIDE })];

  assert.deepEqual(answers.map(({ isHit }) => isHit), [true, true]);
  assert.equal((await edge.stats()).catalogues[0].errors, 1);
});

test("a copy that somebody else wrote is not believed", async () => {
  await edge.chat("hello");
  await until(async () => (await edge.tell("look")).kv.names.some((name) => name.includes("/catalogue/")));
  const [name] = (await edge.tell("look")).kv.names.filter((each) => each.includes("/catalogue/"));
  await edge.tell("advance", { seconds: 40 });
  const forged = `${"0".repeat(64)}\n{"m":"three"}`;
  await edge.tell("put", { name, base64: Buffer.from(forged).toString("base64"), place: "here" });
  origin.models = null;

  const answer = await edge.chat("hello", { headers: BESIDE });

  assert.match(answer.cacheStatus, /fwd=bypass; detail=not-in-catalogue/);
});

for (const [what, models] of [
  ["no JSON", "nothing"],
  ["no list", { data: 5 }],
  ["odd members", { data: [null, 5, { id: 1, revision: "x" }, { id: "m", revision: "" }] }],
]) {
  test(`a node that tells ${what} has no models of its own`, async () => {
    origin.models = models;

    const answer = await edge.chat("hello");

    assert.equal(answer.status, 200);
    assert.match(answer.cacheStatus, /detail=not-in-catalogue/);
  });
}

test("the node hears the revision that is in the key, and no fallback does", async () => {
  await edge.chat("hello");
  const upstreams = { node: { url: origin.url, catalogue: true }, other: { url: origin.url } };
  const routes = [{ name: "all", models: ["*"], upstream: "node", fallback: ["other"] }];
  await edge.tell("world", { settings: { upstreams, routes } });
  origin.reset([{ status: 500, json: {} }, {}]);

  const answer = await edge.chat("hello");

  assert.equal(answer.status, 200);
  const heard = origin.calls.map(({ headers }) => headers["foretold-revision"]);
  assert.deepEqual(heard, ["one", undefined]);
});

test("what a node answers with another revision than is in the key goes through and is not kept", async () => {
  origin.reset([{ headers: { "cache-status": "Foretold; hit; ttl=5; detail=other-revision" } }]);

  const answers = [await edge.chat("hello"), await edge.chat("hello")];

  assert.deepEqual(answers.map(({ status }) => status), [200, 200]);
  assert.ok(answers.every(({ isHit, cacheStatus }) => !isHit && !cacheStatus.includes("stored")));
  assert.equal(origin.calls.length, 2);
  assert.deepEqual(await recordNames(), []);
});
