/** Records through Workers Cache, where `cache.workers_cache` is set: one look-up with KV, and purges that hold. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { inFront } from "./in_front.js";
import { textOf, until } from "./running.js";

const THERE = { "x-test-edge": "there" };
const BESIDE = { "x-test-edge": "there#2" };
const ADMIN = { authorization: "Bearer admin" };
const { origin, edge } = await inFront((origin) => ({
  settings: { upstreams: { fake: { url: origin.url } }, cache: { workers_cache: true } },
}));

async function records() {
  return (await edge.tell("look")).kv.names.filter((name) => !name.includes("generation"));
}

/** Asked here, in KV, and seen by other places. */
async function kept(text = "hello") {
  const answer = await edge.chat(text);
  await until(async () => (await records()).length > 0);
  await edge.tell("advance", { seconds: 15 });
  return answer;
}

function tierOf(stats, name) {
  return stats.tiers.find((tier) => tier.name === name);
}

test("another isolate of a place has a record from there, and KV is read once", async () => {
  await kept();

  const answers = [await edge.chat("hello", { headers: THERE }), await edge.chat("hello", { headers: BESIDE })];

  assert.ok(answers.every(({ isHit }) => isHit));
  assert.equal((await edge.tell("front", { place: "there" })).runs, 1);
  assert.equal(tierOf(await edge.stats("there#2"), "front").hits, 1);
});

test("what is not in KV is looked for once, and never remembered as absent", async () => {
  await edge.chat("hello", { headers: THERE });

  const { tiers } = await edge.stats("there");
  assert.deepEqual(tiers.filter(({ name }) => name === "kv" || name === "front").map(({ lookups }) => lookups), [1, 0]);
  await until(async () => (await records()).length > 0);
  assert.ok((await edge.chat("hello", { headers: BESIDE })).isHit);
});

test("ten who ask at once are one read of KV", async () => {
  await kept();
  const before = (await edge.tell("look")).kv.reads;

  const asking = Array.from({ length: 10 }, (_, i) => edge.chat("hello", { headers: { "x-test-edge": `there#${i}` } }));
  const answers = await Promise.all(asking);

  assert.ok(answers.every(({ isHit }) => isHit));
  // One for the record, and one for the generations of each place.
  assert.ok((await edge.tell("front", { place: "there" })).runs <= 2);
  assert.ok((await edge.tell("look")).kv.reads - before < 20);
});

test("a purged record that it still has is dead, and the new one is found behind it", async () => {
  await kept();
  assert.ok((await edge.chat("hello", { headers: THERE })).isHit);

  assert.equal((await edge.post("/-/cache/purge", { model: "m" }, ADMIN)).status, 200);
  await edge.tell("advance", { seconds: 90 });
  const anew = await edge.chat("hello", { headers: THERE });
  await until(async () => (await edge.tell("front", { place: "there" })).purges === 1);

  assert.equal(textOf(anew), "You said 'hello'. This is call 2.");
  assert.equal((await edge.chat("hello", { headers: BESIDE })).body, anew.body);
});

test("an inner entrypoint that fails is a miss of this tier alone", async () => {
  await kept();
  await edge.tell("fault", { kv: "reads" });
  const failing = await edge.chat("hello", { headers: THERE });
  await edge.tell("fault", { kv: null });

  const { tiers } = await edge.stats("there");

  assert.equal(failing.status, 200);
  assert.deepEqual(["front", "kv"].map((name) => tierOf({ tiers }, name).errors), [1, 1]);
});

test("errors of the caller's own are remembered in memory alone", async () => {
  origin.reset([{ status: 404, json: { error: { message: "no such model" } } }]);

  const answers = [await edge.chat("hello"), await edge.chat("hello"), await edge.chat("hello", { headers: THERE })];

  assert.deepEqual(answers.map(({ isHit }) => isHit), [false, true, false]);
  assert.deepEqual(await records(), []);
});
