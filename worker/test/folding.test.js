/** Folding costs no more than what came; what it tells is in the vectors. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { utf8 } from "../src/contract/bytes.js";
import { folded } from "../src/projections/shapes.js";

// At a cost of their square these would take many minutes.
const PIECES = 60_000;

function transcript(deltas) {
  const told = deltas.map((delta) => `data: ${JSON.stringify({ choices: [{ delta }] })}\n\n`);
  return utf8(`${told.join("")}data: [DONE]\n\n`);
}

function messageOf(deltas) {
  return folded("chat", transcript(deltas)).get("choices")[0].get("message");
}

test("many calls are folded in a time that grows as they do", { timeout: 60_000 }, () => {
  const calls = Array.from({ length: PIECES }, (_, i) => ({ tool_calls: [{ index: i, id: "a" }] }));

  assert.equal(messageOf(calls).get("tool_calls").length, PIECES);
});

test("a text of many pieces is folded in a time that grows as they do", { timeout: 60_000 }, () => {
  const texts = Array(PIECES).fill({ content: "word " });

  assert.equal(messageOf(texts).get("content"), "word ".repeat(PIECES));
});
