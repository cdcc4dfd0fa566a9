/** The emulator of Workers Cache keeps RFC 9111 and what its documentation says. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { FrontCache } from "./emulators/front.js";

/** A cache before answers with these fields, a clock, and how an address is answered. */
function world(fields, { status = 200, body = "x", method = "GET" } = {}) {
  let nowMs = 1_800_000_000_000;
  let serial = 0;
  const inner = async () => new Response(`${body}${++serial}`, { status, headers: fields });
  const cache = new FrontCache(inner, { nowMs: () => nowMs });
  const ask = async (headers = {}, path = "/a") => {
    const answer = await cache.fetch(new Request(`http://host.example${path}`, { method, headers }));
    return [answer.headers.get("cf-cache-status"), await answer.text()];
  };
  return { cache, ask, later: (s) => (nowMs += s * 1000) };
}

test("an answer is kept for as long as it says", async () => {
  const { ask, later } = world({ "cache-control": "max-age=60" });

  assert.deepEqual([await ask(), await ask()], [["MISS", "x1"], ["HIT", "x1"]]);
  later(60);
  assert.deepEqual(await ask(), ["MISS", "x2"]);
});

for (const [what, fields] of [
  ["no-store", { "cache-control": "no-store, max-age=60" }],
  ["private", { "cache-control": "private, max-age=60" }],
  ["a cookie", { "cache-control": "max-age=60", "set-cookie": "a=b" }],
  ["Vary: *", { "cache-control": "max-age=60", vary: "*" }],
  ["an Expires that has passed", { expires: "Thu, 01 Jan 2015 00:00:00 GMT" }],
  ["directives that don't say how long", { "cache-control": "public" }],
]) {
  test(`with ${what} nothing is kept`, async () => {
    const { ask } = world(fields);

    assert.deepEqual([await ask(), await ask()], [["BYPASS", "x1"], ["BYPASS", "x2"]]);
  });
}

test("an answer that says nothing is kept all the same", async () => {
  const { ask } = world({});

  assert.deepEqual([await ask(), await ask()], [["MISS", "x1"], ["HIT", "x1"]]);
});

test("a credential goes past it, unless the answer is for all", async () => {
  const credential = { authorization: "Bearer a" };
  const mine = world({ "cache-control": "max-age=60" });
  const open = world({ "cache-control": "public, max-age=60" });

  assert.equal((await mine.ask(credential))[0], "BYPASS");
  await open.ask(credential);
  assert.equal((await open.ask())[0], "HIT");
});

test("a stale answer is given at once, and one run fetches a new one", async () => {
  const { cache, ask, later } = world({ "cache-control": "max-age=60, stale-while-revalidate=60" });
  await ask();
  later(70);

  assert.deepEqual(await ask(), ["UPDATING", "x1"]);
  await new Promise((turn) => setImmediate(turn));
  assert.deepEqual(await ask(), ["HIT", "x2"]);
  assert.equal(cache.runs, 2);
});

test("s-maxage switches staleness off", async () => {
  const { ask, later } = world({ "cache-control": "s-maxage=60, stale-while-revalidate=60" });
  await ask();
  later(70);

  assert.deepEqual(await ask(), ["MISS", "x2"]);
});

test("many who ask at once are one run, unless the answer can't be kept", async () => {
  const kept = world({ "cache-control": "max-age=60" });
  const unkept = world({ "cache-control": "no-store" });

  for (const { ask } of [kept, unkept]) await Promise.all(Array.from({ length: 5 }, () => ask()));

  assert.deepEqual([kept.cache.runs, unkept.cache.runs], [1, 5]);
});

test("answers vary by the exact text of the fields they name", async () => {
  const { ask } = world({ "cache-control": "max-age=60", vary: "x-a" });
  await ask({ "x-a": "1" });

  assert.equal((await ask({ "x-a": "2" }))[0], "MISS");
  assert.deepEqual(await ask({ "x-a": "1" }), ["HIT", "x1"]);
});

test("a purge by tag takes no note of case, and by path of what goes on", async () => {
  const { cache, ask } = world({ "cache-control": "max-age=60", "cache-tag": "One,Two" });

  await ask();
  await cache.purge({ tags: ["TWO"] });
  assert.equal((await ask())[0], "MISS");
  await cache.purge({ pathPrefixes: ["/b"] });
  assert.equal((await ask())[0], "HIT");
  await cache.purge({ pathPrefixes: ["/"] });
  assert.equal((await ask())[0], "MISS");
});

test("POST goes past it", async () => {
  const { ask } = world({ "cache-control": "max-age=60" }, { method: "POST" });

  assert.deepEqual([await ask(), await ask()], [["DYNAMIC", "x1"], ["DYNAMIC", "x2"]]);
});

test("where a run fails a stale answer may stand in", async () => {
  let fails = false;
  let nowMs = 0;
  const inner = async () => {
    if (fails) throw new Error("no");
    return new Response("x", { headers: { "cache-control": "max-age=1, stale-if-error=60" } });
  };
  const cache = new FrontCache(inner, { nowMs: () => nowMs });
  await cache.fetch(new Request("http://a/"));
  [fails, nowMs] = [true, 10_000];

  assert.equal((await cache.fetch(new Request("http://a/"))).headers.get("cf-cache-status"), "STALE");
  nowMs = 100_000;
  await assert.rejects(cache.fetch(new Request("http://a/")));
});
