/** What is told of queries outside the isolate: data points, and lines in R2. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { LEAST_LINES } from "../../src/observe/logs.js";
import { inFront } from "./in_front.js";
import { until } from "./running.js";

const SECRET_WORD = "xylophone";
const { origin, edge } = await inFront((origin) => ({
  settings: { upstreams: { fake: { url: origin.url } } },
  watched: true,
}));

test("each query is one data point that says how it went, and none holds a text or a credential", async () => {
  const headers = { authorization: `Bearer ${SECRET_WORD}` };
  await edge.chat(SECRET_WORD, { headers });
  await edge.chat(SECRET_WORD, { headers });
  await edge.chat(SECRET_WORD, { stream: true, headers });
  await edge.post("/v1/chat/completions", []);

  const { points } = await edge.tell("look");
  assert.deepEqual(points.map(({ blobs }) => blobs[0]), ["miss", "hit", "hit", "error"]);
  assert.deepEqual(points[1].blobs.slice(1, 6), ["whole", "memory", "chat", "m", "fake"]);
  assert.deepEqual(points.map(({ doubles }) => doubles[3]), [200, 200, 200, 400]);
  assert.ok(!JSON.stringify(points).includes(SECRET_WORD));
});

test("a model's name of any length is cut to what the platform takes", async () => {
  await edge.chat("hello", { model: "é".repeat(5000) });

  assert.equal((await edge.tell("look")).points.length, 1);
  assert.equal((await edge.stats()).metrics.lost, 0);
});

test("lines wait for each other: never an object a query", async () => {
  for (let query = 1; query < LEAST_LINES; query++) await edge.chat("hello");
  await edge.tell("advance", { seconds: 3600 });
  assert.deepEqual((await edge.tell("look")).logs, []);

  await edge.chat("hello");

  await until(async () => (await edge.tell("look")).logs.length === 1);
  const [{ name, text }] = (await edge.tell("look")).logs;
  const lines = text.trimEnd().split("\n").map((line) => JSON.parse(line));
  assert.match(name, /^foretold\/logs\/[0-9]{4}-[0-9]{2}-[0-9]{2}\/[0-9]{6}\.[0-9]{3}-[0-9a-f]{12}\.ndjson$/);
  assert.equal(lines.length, LEAST_LINES);
  assert.deepEqual([lines[0].how, lines[1].how, lines[1].tier], ["miss", "hit", "memory"]);
  assert.ok(!text.includes("hello"));
});

test("lines that R2 doesn't take are counted as lost, and cost nobody an answer", async () => {
  await edge.tell("fault", { logs: true });
  for (let query = 1; query < LEAST_LINES; query++) await edge.chat("hello");
  await edge.tell("advance", { seconds: 60 });

  const answer = await edge.chat("hello");

  assert.equal(answer.status, 200);
  await until(async () => (await edge.stats()).logs.lost === LEAST_LINES);
  assert.equal((await edge.stats()).logs.waiting, 0);
});
