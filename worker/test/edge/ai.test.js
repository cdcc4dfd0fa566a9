/** Workers AI as origin: its own shapes and OpenAI's, its errors, its streams. */

import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";

import { Origin } from "../emulators/origin.js";
import { running, textOf } from "./running.js";

const TARGET = { speaks: "workers_ai" };
let edge;

before(async () => {
  edge = await running("test/edge/under_test.js");
});
after(() => edge.stop());
beforeEach(() => edge.tell("world", { settings: { upstreams: { ai: TARGET } } }));

async function calls() {
  return (await edge.tell("look")).ai;
}

test("a native model's answer comes in OpenAI's shape, and a repeat is a hit", async () => {
  const answer = await edge.chat("hello", { model: "@cf/native" });
  const again = await edge.chat("hello", { model: "@cf/native" });

  const { object, choices, usage } = JSON.parse(answer.body);
  assert.equal(object, "chat.completion");
  assert.equal(choices[0].finish_reason, "stop");
  assert.equal(usage.prompt_tokens, 7);
  assert.equal(textOf(answer), "You said 'hello'. This is call 1.");
  assert.equal(again.body, answer.body);
  assert.equal((await calls()).length, 1);
});

test("a native model's stream comes in OpenAI's events, and is one record with the whole", async () => {
  const streamed = await edge.chat("hello", { model: "@cf/native", stream: true });
  const again = await edge.chat("hello", { model: "@cf/native", stream: true });
  const whole = await edge.chat("hello", { model: "@cf/native" });

  assert.equal(textOf(streamed), "You said 'hello'. This is call 1.");
  assert.ok(streamed.body.endsWith("data: [DONE]\n\n"));
  assert.equal(again.body, streamed.body);
  assert.ok(whole.isHit);
  assert.equal(textOf(whole), textOf(streamed));
});

test("events that are OpenAI's go through byte for byte", async () => {
  const streamed = await edge.chat("hello", { model: "@cf/openai", stream: true });
  const again = await edge.chat("hello", { model: "@cf/openai", stream: true });

  assert.match(streamed.body, /^data: \{"id":"chatcmpl-stub","object":"chat.completion.chunk"/);
  assert.ok(again.isHit);
  assert.equal(again.body, streamed.body);
});

test("a model that answers JSON although a stream was asked for is given as a stream", async () => {
  const answer = await edge.chat("hello", { model: "@cf/whole", stream: true });

  assert.match(answer.headers["content-type"], /^text\/event-stream/);
  assert.equal(textOf(answer), "You said 'hello'. This is call 1.");
});

test("a stream that breaks off ends with an error event and is not kept", async () => {
  const cut = await edge.chat("hello", { model: "@cf/cut", stream: true });
  await edge.chat("hello", { model: "@cf/cut", stream: true });

  assert.match(cut.body, /upstream_error/);
  assert.doesNotMatch(cut.body, /\[DONE\]/);
  assert.equal((await calls()).length, 2);
});

test("a slow first token is waited for", async () => {
  const asking = edge.chat("hello", { model: "@cf/slow", stream: true });
  while ((await calls()).length === 0);

  await edge.tell("release");

  assert.equal(textOf(await asking), "You said 'hello'. This is call 1.");
});

test("a model without room lets the next target answer, labelled and not kept", async () => {
  const origin = await Origin.start();
  const upstreams = { ai: TARGET, other: { url: origin.url } };
  const routes = [{ name: "all", models: ["*"], upstream: "ai", fallback: ["other"] }];
  await edge.tell("world", { settings: { upstreams, routes } });

  const answers = [await edge.chat("hello", { model: "@cf/busy" })];
  await edge.tell("advance", { seconds: 1 });
  answers.push(await edge.chat("hello", { model: "@cf/busy" }));
  await origin.stop();

  assert.deepEqual(answers.map(textOf), [1, 2].map((call) => `You said 'hello'. This is call ${call}.`));
  assert.ok(answers.every(({ cacheStatus }) => cacheStatus.endsWith("; detail=fallback")));
  assert.ok((await calls()).every(({ options }) => options.rejectIfBusy));
});

test("a model without room and no other target is a 429 that says so", async () => {
  const busy = await edge.chat("hello", { model: "@cf/busy" });

  assert.equal(busy.status, 429);
  assert.equal(JSON.parse(busy.body).error.code, "out_of_capacity");
});

test("when the day's free use is used up nobody is asked until midnight UTC", async () => {
  const answers = [await edge.chat("a", { model: "@cf/used-up" }), await edge.chat("b", { model: "@cf/native" })];
  const before = (await calls()).length;
  await edge.tell("advance", { seconds: 86_400 });

  const after = await edge.chat("b", { model: "@cf/native" });

  assert.deepEqual(answers.map(({ status }) => status), [503, 503]);
  assert.match(JSON.parse(answers[0].body).error.message, /T00:00:00/);
  assert.equal(before, 1);
  assert.equal(after.status, 200);
});

test("an unknown model says so", async () => {
  const answer = await edge.chat("hello", { model: "@cf/unknown" });

  assert.equal(answer.status, 404);
  assert.equal(JSON.parse(answer.body).error.code, "model_not_found");
});

test("a text model predicts, and other models get their own input and give their own answer", async () => {
  const text = await edge.post("/predict/@cf/native", { prompt: "hello" });
  const vectors = await edge.post("/predict/@cf/vectors", { text: ["a"] });
  const again = await edge.post("/predict/@cf/vectors", { text: ["a"] });

  assert.deepEqual(JSON.parse(text.body), { output: "You said 'hello'. This is call 1." });
  assert.deepEqual(JSON.parse(vectors.body), { shape: [1, 3], data: [[0.25, 0.5, 1]] });
  assert.ok(again.isHit);
});

test("conversations that begin alike are sent to the same instance", async () => {
  const system = { role: "system", content: "Be brief." };
  for (const said of ["a", "b"]) {
    await edge.chat("", { model: "@cf/native", messages: [system, { role: "user", content: said }] });
  }
  await edge.chat("c", { model: "@cf/native" });

  const affinities = (await calls()).map(({ options }) => options.extraHeaders["x-session-affinity"]);
  assert.equal(affinities[0], affinities[1]);
  assert.notEqual(affinities[0], affinities[2]);
});

test("a model that is too slow with its first token, or in mid-answer, gives way to the next target", async () => {
  const origin = await Origin.start();
  const slow = { ...TARGET, first_byte_timeout: "50ms", idle_timeout: "50ms", retries: 0 };
  const routes = [{ name: "all", models: ["*"], upstream: "ai", fallback: ["other"] }];
  await edge.tell("world", { settings: { upstreams: { ai: slow, other: { url: origin.url } }, routes } });

  const answers = [];
  for (const [model, stream] of [["@cf/mute", false], ["@cf/slow", true]]) {
    answers.push(await edge.chat("hello", { model, stream }));
  }
  const cut = await edge.chat("hello", { model: "@cf/stalls", stream: true });
  await origin.stop();

  assert.deepEqual(answers.map(({ cacheStatus }) => /detail=fallback/.test(cacheStatus)), [true, true]);
  assert.match(cut.body, /stalled/);
  assert.ok(!(await edge.chat("hello", { model: "@cf/stalls" })).isHit);
});

for (const [kind, status, code] of [
  ["too-long", 413, "too_large"],
  ["timed-out", 504, "origin_timeout"],
  ["licence", 403, "licence_not_accepted"],
]) {
  test(`the platform's '${kind}' is told as ${status}`, async () => {
    const answer = await edge.chat("hello", { model: `@cf/${kind}` });

    assert.deepEqual([answer.status, JSON.parse(answer.body).error.code], [status, code]);
  });
}

test("a call of a tool comes in OpenAI's shape", async () => {
  const answer = await edge.chat("hello", { model: "@cf/calls", tools: [{ type: "function", function: { name: "look" } }] });

  const [{ message, finish_reason: finish }] = JSON.parse(answer.body).choices;
  assert.equal(finish, "tool_calls");
  assert.deepEqual(message.tool_calls[0].function, { name: "look", arguments: '{"at":1}' });
});

test("an answer that ended at the model's own limit is kept and says so", async () => {
  const long = Array.from({ length: 300 }, () => "word").join(" ");

  const answer = await edge.chat(long, { model: "@cf/native" });
  const again = await edge.chat(long, { model: "@cf/native" });

  assert.equal(JSON.parse(answer.body).choices[0].finish_reason, "length");
  assert.ok(again.isHit);
});
