/** Whatever an upstream does wrong: no wrong byte, no foreign byte, no half record, no hang, and the next is answered. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";

import { BREAKING, ODD, PASSED_ON } from "../emulators/faults.js";
import { Origin } from "../emulators/origin.js";
import { running, textOf, until } from "./running.js";

const THEIRS = new URL("../../../tests/faults/replies.py", import.meta.url);
const SHORT = { first_byte_timeout: "500ms", idle_timeout: "500ms", total_timeout: "1500ms" };
const LONG = { first_byte_timeout: "60s", idle_timeout: "60s", total_timeout: "120s" };
const AT_ONCE = 12;
// Ended by a time-out and by nothing else.
const HANGING = new Set([
  "hangs before the head", "hangs in the head", "hangs in the body", "drips without an end", "never ends its head",
  "never ends a line of its head", "never ends its whole answer", "never ends its stream", "never ends an event",
  "never stops saying 100", "says a longer length and stays", "sends a chunk of 2**70 bytes",
]);
// JSON that closes what it opened shows its own end: the edge isn't told how an answer was framed.
const KEPT_HERE = new Set(["an end told only by the connection"]);
// The platform keeps connections itself, and locally gives what was said unasked to the next question on one.
const UNASKED = "an answer to a question nobody asked";
let origin;
let edge;

before(async () => {
  origin = await Origin.start();
  edge = await running("test/edge/under_test.js");
});
after(async () => {
  await edge.stop();
  await origin.stop();
});

/** What came of a question: `isAnswer` if it was answered, and rightly. */
async function asked(name, members = {}) {
  const question = `<<${name}>>`;
  const answer = await edge.chat(question, members);
  assert.ok(!answer.body.includes("<<another>>"), `${name}: a foreign byte`);
  const text = said(answer);
  const isRight = text !== null && text.startsWith(`You said '${question}'. This is call `) && text.endsWith(".");
  assert.ok(text === null || isRight, `${name}: a wrong answer, ${text}`);
  return { ...answer, isAnswer: text !== null };
}

/** The text of an answer that looks whole, or null. */
function said({ status, body, headers, isCut }) {
  if (status !== 200 || isCut) return null;
  const isStream = (headers["content-type"] ?? "").startsWith("text/event-stream");
  if (isStream && (!body.includes("data: [DONE]") || body.includes('"error"'))) return null;
  try {
    // Who streams reads no further than this.
    const text = textOf({ headers, body: isStream ? body.split("data: [DONE]")[0] : body });
    return typeof text === "string" && text !== "" ? text : null;
  } catch {
    return null;
  }
}

/** The same question whole, streamed and whole at once, so that flights are joined, and then again. */
async function askedBySeveral(name) {
  const first = await Promise.all([asked(name), asked(name, { stream: true }), asked(name)]);
  return [first, await asked(name)];
}

async function inBatches(names, act) {
  for (let at = 0; at < names.length; at += AT_ONCE) await Promise.all(names.slice(at, at + AT_ONCE).map(act));
}

async function worldOf(faults, timeouts) {
  origin.hangUp();
  origin.chosen = ({ body }) => {
    const name = /<<(.*?)>>/.exec(JSON.parse(body).messages.at(-1).content)?.[1];
    return Object.hasOwn(faults, name) ? { wire: faults[name] } : null;
  };
  await edge.tell("world", { settings: { upstreams: { fake: { url: origin.url, ...timeouts } } } });
}

/** All is given back, counts add up, and the next question is answered. */
async function assertAtRest() {
  origin.hangUp();
  let times = 0;
  await until(async () => (await asked(`something else ${++times}`)).isAnswer);
  await until(async () => (await edge.tell("flights")) === 0);
  await until(async () => (await edge.stats()).riders === 0);
  const { memory, received, how, ended } = await edge.stats();
  assert.deepEqual([memory.bodies.held_bytes, memory.flights.held_bytes], [0, 0]);
  const sum = (counts) => Object.values(counts).reduce((total, count) => total + count, 0);
  assert.deepEqual([sum(how), sum(ended)], [received, received]);
}

const breaking = Object.keys(BREAKING).filter((name) => !HANGING.has(name));

test("an answer that breaks is nobody's and never kept", async () => {
  await worldOf(BREAKING, LONG);
  const ran = [];

  await inBatches(breaking, async (name) => {
    const [first, again] = await askedBySeveral(name);
    assert.deepEqual(first.map(({ isAnswer }) => isAnswer), [false, false, false], name);
    assert.ok(!again.isHit && !again.isAnswer, `${name}: again ${again.cacheStatus}`);
    ran.push(name);
  });

  assert.deepEqual(ran.sort(), [...breaking].sort());
  await assertAtRest();
});

test("an answer that never ends is given up in its time, is nobody's and never kept", async () => {
  await worldOf(BREAKING, SHORT);
  const ran = [];

  await inBatches([...HANGING], async (name) => {
    const [first, again] = await askedBySeveral(name);
    assert.deepEqual(first.map(({ isAnswer }) => isAnswer), [false, false, false], name);
    assert.ok(!again.isHit && !again.isAnswer, `${name}: again ${again.cacheStatus}`);
    ran.push(name);
  });

  assert.deepEqual(ran.sort(), [...HANGING].sort());
  await assertAtRest();
});

test("an answer that is no good one goes through and is never kept", async () => {
  await worldOf(PASSED_ON, LONG);
  const ran = [];

  await inBatches(Object.keys(PASSED_ON), async (name) => {
    const [first, again] = await askedBySeveral(name);
    assert.ok(first.every(({ isHit }) => !isHit), name);
    assert.ok(!again.isHit || KEPT_HERE.has(name), `${name}: again ${again.cacheStatus}`);
    ran.push(name);
  });

  assert.deepEqual(ran.sort(), Object.keys(PASSED_ON).sort());
  await assertAtRest();
});

test("an odd answer is right or refused", async () => {
  const odd = Object.keys(ODD).filter((name) => name !== UNASKED);
  await worldOf(ODD, LONG);
  const ran = [];

  await inBatches(odd, async (name) => {
    const [first] = await askedBySeveral(name);
    assert.ok(first.every(({ isAnswer, status }) => isAnswer || status !== 200 || name === "trailers"), name);
    ran.push(name);
  });

  assert.deepEqual(ran.sort(), odd.sort());
  await assertAtRest();
});

test("a question whose upstream then says something unasked has its own answer", async () => {
  const others = origin;
  origin = await Origin.start();
  try {
    await worldOf(ODD, LONG);

    assert.ok((await asked(UNASKED)).isAnswer);
  } finally {
    await origin.stop();
    origin = others;
  }
});

test("the faults are those that the node is tried with", () => {
  const text = readFileSync(THEIRS, "utf8");
  const named = (list) => {
    const [, rest] = text.split(`\n${list}: dict[str, Reply] = {\n`);
    return [...rest.split("\n}\n")[0].matchAll(/^ {4}"([^"]+)": /gm)].map(([, name]) => name);
  };

  for (const [list, ours] of Object.entries({ BREAKING, PASSED_ON, ODD })) {
    assert.deepEqual(Object.keys(ours).sort(), named(list).sort(), list);
  }
});
