/** Streams and flights: first bytes early, nothing half kept, nobody held up (rules L1, P1, P3, R3). */

import assert from "node:assert/strict";
import { test } from "node:test";

import { inFront } from "./in_front.js";
import { chatBody, textOf, until } from "./running.js";

const MOST_BYTES = 100 * 10 ** 6;
const { origin, edge } = await inFront((origin) => ({ settings: { upstreams: { fake: { url: origin.url } } } }));

function streaming(text = "hello", headers = {}) {
  return edge.open("POST", "/v1/chat/completions", { body: JSON.stringify(chatBody(text, { stream: true })), headers });
}

async function flightsIn(name = "here") {
  return edge.tell("flights", { edge: name });
}

test("the first event of a miss arrives before the upstream ends, and a replay is byte-equal", async () => {
  origin.reset([{ waits: [2] }]);
  const answer = await streaming();

  const first = await answer.next();

  assert.match(first.toString(), /^data: \{/);
  assert.equal(await flightsIn(), 1);
  origin.release();
  const rest = await answer.whole();
  const again = await (await streaming()).whole();
  assert.equal(again.body, first.toString() + rest.body);
  assert.equal(origin.calls.length, 1);
});

test("who comes in mid-stream gets all of it, streamed or whole, and the origin is asked once", async () => {
  origin.reset([{ waits: [2] }]);
  const leader = await streaming();
  const first = await leader.next();
  const follower = await streaming();
  const early = await follower.next();
  const asking = edge.chat("hello");
  await until(async () => (await edge.stats()).riders === 3);

  origin.release();
  const answers = [first.toString() + (await leader.whole()).body, early.toString() + (await follower.whole()).body];
  const whole = await asking;

  assert.equal(answers[0], answers[1]);
  assert.equal(textOf(whole), "You said 'hello'. This is call 1.");
  assert.match(follower.cacheStatus, /; collapsed/);
  assert.equal(origin.calls.length, 1);
  assert.equal((await edge.stats()).how.collapsed, 2);
});

test("a caller who leaves in mid-stream leaves nothing half behind, and the next gets all of it", async () => {
  origin.reset([{ waits: [2] }, {}]);
  const answer = await streaming();
  await answer.next();

  answer.leave();
  const halfway = (await edge.tell("look")).kv.names.filter((name) => !name.includes("generation"));
  const asking = edge.chat("hello");
  await until(async () => (await edge.stats()).received === 2);
  origin.release();
  const next = await asking;

  // By a flight of its own or in that one, as the platform noticed or not.
  assert.deepEqual(halfway, []);
  assert.match(textOf(next), /^You said 'hello'. This is call [12].$/);
  assert.equal(textOf(await edge.chat("hello")), textOf(next));
});

test("a caller who leaves in mid-capture of a stream that is then cut leaves nothing in any tier", async () => {
  origin.reset([{ waits: [2], cut_after: 3 }, {}]);
  const answer = await streaming();
  await answer.next();

  answer.leave();
  origin.release();
  await until(async () => (await flightsIn()) === 0);

  const { tiers, stored } = await edge.stats();
  assert.equal(stored, 0);
  assert.ok(tiers.every(({ puts = 0, held_bytes = 0 }) => puts === 0 && held_bytes === 0));
  assert.deepEqual((await edge.tell("look")).kv.names.filter((name) => !name.includes("generation")), []);
  assert.ok(!(await edge.chat("hello")).isHit);
});

test("a leader who leaves takes the answer from nobody", async () => {
  origin.reset([{ waits: [2] }]);
  const leader = await streaming();
  await leader.next();
  const follower = await streaming();
  await follower.next();

  leader.leave();
  origin.release();
  const rest = await follower.whole();

  assert.match(rest.body, /\[DONE\]/);
  assert.ok((await edge.chat("hello")).isHit);
  assert.equal(origin.calls.length, 1);
});

test("an answer that nobody waited for before its first byte is there for the next", async () => {
  origin.reset([{ waits: [0] }]);
  const leaving = edge.begin("POST", "/v1/chat/completions", { body: JSON.stringify(chatBody("hello")) });
  leaving.on("error", () => {});
  await origin.called(1);

  leaving.destroy();
  origin.release();
  await until(async () => (await flightsIn()) === 0);

  assert.ok((await edge.chat("hello")).isHit);
});

test("an answer over the limit goes through whole and is not kept", async () => {
  await edge.tell("world", { settings: { upstreams: { fake: { url: origin.url } } }, r2: false });
  const long = "x".repeat(3 * 2 ** 20);
  origin.reset([{ chat: long }]);

  const answer = await edge.chat("hello");
  const again = await edge.chat("hello");

  assert.equal(textOf(answer), long);
  assert.ok(!again.isHit);
  assert.equal(origin.calls.length, 2);
});

test("an answer over 1 MiB is a hit from R2, by a pointer in KV", async () => {
  const long = "x".repeat(3 * 2 ** 20);
  origin.reset([{ chat: long }]);

  await edge.chat("hello");
  await until(async () => (await edge.tell("look")).kv.names.some((name) => !name.includes("generation")));
  await edge.tell("advance", { seconds: 15 });
  const there = await edge.chat("hello", { headers: { "x-test-edge": "there" } });

  const [name] = (await edge.tell("look")).kv.names.filter((each) => !each.includes("generation"));
  assert.ok((await edge.tell("value", { name })).base64.length < 4096);
  assert.equal(textOf(there), long);
  assert.ok(there.isHit, there.cacheStatus);
  assert.equal((await edge.stats("there")).tiers.find((tier) => tier.name === "r2").hits, 1);
  assert.equal(origin.calls.length, 1);
});

test("a hundred callers at once are one call", async () => {
  origin.reset([{ waits: [0] }]);
  const asking = Array.from({ length: 100 }, () => edge.chat("hello"));
  await origin.called(1);
  await until(async () => (await edge.stats()).riders === 100);

  origin.release();
  const answers = await Promise.all(asking);

  assert.equal(origin.calls.length, 1);
  assert.equal(new Set(answers.map(({ body }) => body)).size, 1);
});

test("a hundred requests of 256 KiB at once are all answered, within less than 100 MB of our own account", async () => {
  const filler = "y".repeat(255 * 1024);
  origin.reset([{ waits: [0] }]);
  const asking = Array.from({ length: 100 }, (_, i) => edge.chat(`${filler}${String(i).padStart(3, "0")}`));
  await origin.called(100);

  const during = (await edge.stats()).memory;
  origin.release();
  const answers = await Promise.all(asking);

  assert.deepEqual(answers.map(({ status }) => status), answers.map(() => 200));
  assert.ok(answers.every((answer, i) => Number(/([0-9]{3})'/.exec(textOf(answer))[1]) === i));
  const { memory, tiers } = await edge.stats();
  assert.ok(during.bodies.held_bytes >= 100 * 255 * 1024, "all of them are here at once");
  const rooms = [...Object.values(memory), tiers[0]];
  const sum = (name) => rooms.reduce((total, room) => total + (room[name] ?? room.held_bytes), 0);
  assert.ok(sum("limit_bytes") < MOST_BYTES, `${sum("limit_bytes")} bytes may be held`);
  assert.ok(sum("most_bytes") < MOST_BYTES, `${sum("most_bytes")} bytes were held`);
  await until(async () => (await edge.stats()).memory.writing.held_bytes === 0);
  assert.deepEqual([memory.bodies.held_bytes, memory.flights.held_bytes], [0, 0]);
});

test("bodies beyond the room for them are told to come again, and none of them is half read", async () => {
  const settings = { upstreams: { fake: { url: origin.url } }, server: { bodies_together: "4 MiB" } };
  await edge.tell("world", { settings });
  const filler = "y".repeat(255 * 1024);
  origin.reset([{ waits: [0] }]);
  let refused = 0;
  const asking = Array.from({ length: 40 }, async (_, i) => {
    const answer = await edge.chat(`${filler}${String(i).padStart(3, "0")}`);
    refused += answer.status === 503 ? 1 : 0;
    return answer;
  });
  await until(() => refused >= 24);
  await origin.called(1);

  const { bodies } = (await edge.stats()).memory;
  origin.release();
  const answers = await Promise.all(asking);

  assert.ok(bodies.most_bytes <= bodies.limit_bytes + 256 * 1024);
  assert.ok(answers.every(({ status, headers }) => status === 200 || (status === 503 && headers["retry-after"] === "1")));
  assert.equal(answers.filter(({ status }) => status === 200).length, 40 - refused);
});
