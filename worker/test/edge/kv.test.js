/** KV as it is: late, remembering what it didn't find, with few writes (rules R4, G1, F1). */

import assert from "node:assert/strict";
import { test } from "node:test";

import { generationName } from "../../src/contract/generations.js";
import { unpack } from "../../src/contract/record.js";
import { inFront } from "./in_front.js";
import { textOf, until } from "./running.js";

const THERE = { "x-test-edge": "there" };
// Another isolate of the same place: its own memory, the same Cache API and KV.
const BESIDE = { "x-test-edge": "here#2" };
const ADMIN = { authorization: "Bearer admin" };
const { origin, edge } = await inFront((origin) => ({ settings: { upstreams: { fake: { url: origin.url } } } }));

async function records() {
  return (await edge.tell("look")).kv.names.filter((name) => !name.includes("generation"));
}

/** Asks here, and returns once the record is in KV. */
async function kept(text = "hello", asked = {}) {
  const answer = await edge.chat(text, asked);
  await until(async () => (await records()).length > 0);
  return answer;
}

function tierOf(stats, name) {
  return stats.tiers.find((tier) => tier.name === name);
}

test("what is in KV are the bytes of the record, under the name of its namespace and key", async () => {
  await kept();

  const [name] = await records();
  const [, namespace, key] = /^foretold\/1\/([0-9a-f]{64})\/([0-9a-f]{64})$/.exec(name);
  const blob = new Uint8Array(Buffer.from((await edge.tell("value", { name })).base64, "base64"));
  const record = await unpack(blob, new Uint8Array(32), { key, namespace });
  assert.equal(record.kind, "answer");
  assert.equal(record.operation, "chat");
  assert.equal(record.fresh_s, 86_400);
});

test("another place finds in KV what was kept here, once KV shows it", async () => {
  const answer = await kept();
  await edge.tell("advance", { seconds: 15 });

  const there = await edge.chat("hello", { headers: THERE });

  assert.equal(there.body, answer.body);
  assert.match(there.cacheStatus, /hit; ttl=86385/);
  assert.equal(tierOf(await edge.stats("there"), "kv").hits, 1);
  assert.equal(origin.calls.length, 1);
});

test("another isolate of the same place finds it in the data centre's cache", async () => {
  await kept();
  await until(async () => tierOf(await edge.stats(), "cache").puts === 1);

  const beside = await edge.chat("hello", { headers: BESIDE });

  assert.ok(beside.isHit);
  assert.equal(tierOf(await edge.stats("here#2"), "cache").hits, 1);
});

test("a place that remembers that there was nothing asks its origin, and is right later", async () => {
  const first = await edge.chat("hello", { headers: THERE, "foretold-ttl": 1 });
  assert.match(first.cacheStatus, /fwd=uri-miss/);
  await kept("other");
  const miss = await edge.chat("other", { headers: THERE });
  await edge.tell("advance", { seconds: 100 });

  const hit = await edge.chat("other", { headers: THERE });

  assert.ok(!miss.isHit);
  assert.ok(hit.isHit);
});

test("of two answers within a second the first is written and the second dropped, and both are told", async () => {
  await kept();
  const { writes } = (await edge.tell("look")).kv;

  const again = await edge.chat("hello", { headers: { "cache-control": "no-cache" } });

  assert.equal(textOf(again), "You said 'hello'. This is call 2.");
  await until(async () => (await edge.stats()).dropped === 1);
  assert.deepEqual((({ kv }) => [kv.writes, kv.refused])(await edge.tell("look")), [writes, 0]);
});

test("a write that KV refuses for a second's sake is counted, and costs nobody an answer", async () => {
  await kept();

  const beside = await edge.chat("hello", { headers: { ...BESIDE, "cache-control": "no-cache" } });

  assert.equal(beside.status, 200);
  await until(async () => tierOf(await edge.stats("here#2"), "kv").refused === 1);
});

test("a life shorter than KV can count is kept a minute there, and is no longer for it", async () => {
  const cache = { fresh: "5s", stale_while_revalidate: 0, stale_if_error: 0 };
  await edge.tell("world", { settings: { upstreams: { fake: { url: origin.url } }, cache } });
  await kept();

  const [name] = await records();
  assert.ok((await edge.tell("value", { name })).keep_s >= 60);
  await edge.tell("advance", { seconds: 6 });
  assert.ok(!(await edge.chat("hello")).isHit);
});

test("when the day's writes are used up the edge reads on, says so, and writes again after midnight", async () => {
  await kept("first");
  await edge.tell("fault", { kv: "day" });

  const answers = [await edge.chat("second"), await edge.chat("third")];

  await until(async () => tierOf(await edge.stats(), "kv").dropped === 1);
  assert.deepEqual(answers.map(({ status }) => status), [200, 200]);
  assert.equal((await edge.tell("look")).kv.refused, 1);
  assert.ok((await edge.chat("first")).isHit);
  assert.match(JSON.parse((await edge.send("GET", "/-/health")).body).read_only_until.kv, /T00:00:00/);
  await edge.tell("fault", { kv: null });
  await edge.tell("advance", { seconds: 86_400 });
  const before = (await records()).length;
  await edge.chat("fourth");
  await until(async () => (await records()).length > before);
});

test("a KV that doesn't answer is a miss in its deadline, and nothing is kept that can't be purged", async () => {
  await edge.tell("fault", { kv: "hang" });
  const beganMs = performance.now();

  const answer = await edge.chat("hello");

  assert.equal(answer.status, 200);
  assert.ok(performance.now() - beganMs < 8000);
  assert.ok(tierOf(await edge.stats(), "kv").timeouts >= 1);
  await edge.tell("fault", { kv: null });
  assert.ok(!(await edge.chat("hello")).isHit);
  assert.ok((await edge.chat("hello")).isHit);
});

test("while generations can't be read, records are believed for 90 s and then count as dead", async () => {
  await edge.chat("hello");
  await edge.tell("fault", { kv: "reads" });

  await edge.tell("advance", { seconds: 80 });
  const believed = await edge.chat("hello");
  await edge.tell("advance", { seconds: 11 });
  const dead = await edge.chat("hello");

  assert.ok(believed.isHit);
  assert.ok(!dead.isHit);
});

test("a purge here is known here at once and everywhere within 90 s", async () => {
  await kept();
  await edge.tell("advance", { seconds: 15 });
  assert.ok((await edge.chat("hello", { headers: THERE })).isHit);

  const purged = await edge.post("/-/cache/purge", { model: "m" }, ADMIN);

  assert.equal(purged.status, 200, purged.body);
  assert.ok(!(await edge.chat("hello")).isHit);
  await edge.tell("advance", { seconds: 90 });
  // There it may find what was asked anew here, but not what was purged.
  assert.equal(textOf(await edge.chat("hello", { headers: THERE })), "You said 'hello'. This is call 2.");
});

for (const [by, asked] of [
  ["tag", { tag: "a" }],
  ["tenant", { tenant: "local:" }],
  ["everything", { everything: true }],
]) {
  test(`a purge by ${by} kills what is of it`, async () => {
    await edge.chat("hello", { headers: { "foretold-tags": "a b" } });
    assert.ok((await edge.chat("hello")).isHit);
    await edge.tell("advance", { seconds: 2 });

    assert.equal((await edge.post("/-/cache/purge", asked, ADMIN)).status, 200);

    assert.ok(!(await edge.chat("hello")).isHit);
  });
}

test("a generation that a node wrote kills records of the edge within 90 s", async () => {
  await kept();
  const name = await generationName("model:m");
  await edge.tell("put", { name, base64: Buffer.from("0123456789abcdef").toString("base64"), place: "node" });

  await edge.tell("advance", { seconds: 90 });

  assert.ok(!(await edge.chat("hello")).isHit);
});

test("what landed after a purge that came in mid-flight is not kept", async () => {
  await edge.chat("before");
  origin.reset([{ waits: [0] }, {}]);
  const asking = edge.chat("hello");
  await origin.called(1);
  await edge.post("/-/cache/purge", { model: "m" }, ADMIN);

  origin.release();

  assert.equal((await asking).status, 200);
  assert.ok(!(await edge.chat("hello")).isHit);
});

test("two edges begin the generation of everything in the same moment, and later both keep", async () => {
  await Promise.all([edge.chat("one"), edge.chat("one", { headers: THERE })]);
  await edge.tell("advance", { seconds: 100 });

  await edge.chat("two");
  await edge.chat("two", { headers: THERE });

  assert.ok((await edge.chat("two")).isHit);
  assert.ok((await edge.chat("two", { headers: THERE })).isHit);
});

test("of all isolates of a place one fetches behind a stale answer", async () => {
  const cache = { fresh: "60s", stale_while_revalidate: "1h" };
  await edge.tell("world", { settings: { upstreams: { fake: { url: origin.url } }, cache } });
  await kept();
  await until(async () => tierOf(await edge.stats(), "cache").puts === 1);
  await edge.chat("hello", { headers: BESIDE });
  await edge.tell("advance", { seconds: 70 });
  origin.reset([{ waits: [0] }]);

  const stale = [await edge.chat("hello"), await edge.chat("hello")];
  await origin.called(1);
  stale.push(await edge.chat("hello", { headers: BESIDE }));
  origin.release();
  await until(async () => (await edge.tell("flights")) === 0);

  assert.ok(stale.every(({ cacheStatus }) => /hit; ttl=-10/.test(cacheStatus)));
  assert.equal(origin.calls.length, 1);
  assert.match((await edge.chat("hello")).cacheStatus, /hit; ttl=60/);
});

test("a damaged record, or another's under its name, is a miss and counted", async () => {
  await kept();
  await kept("other");
  await until(async () => (await records()).length === 2);
  const [one, other] = await records();
  const { base64 } = await edge.tell("value", { name: other });
  await edge.tell("advance", { seconds: 15 });
  await edge.tell("put", { name: one, base64, place: "there" });

  const answers = [];
  for (const text of ["hello", "other"]) answers.push(await edge.chat(text, { headers: THERE }));

  assert.deepEqual(answers.map(textOf).map((text) => /'(.*)'/.exec(text)[1]), ["hello", "other"]);
  assert.equal((await edge.stats("there")).corrupt, 1);
});
