/** Text is cut between code points, and loses none of its bytes. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { chanceFrom } from "../operations/chance.js";
import { CodePoints, cutAnew, isUtf8 } from "../src/code_points.js";
import { joined, textOf, utf8 } from "../src/contract/bytes.js";

const LANGUAGES = "Tiếng Việt, ภาษาไทย, العربية, 👩‍👩‍👧 and plain";
const TEXTS = 2000;

function below(chance, limit) {
  return Math.floor(chance() * limit);
}

function cutAtRandom(chance, bytes) {
  const cuts = Array.from({ length: below(chance, 12) }, () => below(chance, bytes.length + 1)).sort((a, b) => a - b);
  return [0, ...cuts].map((start, i) => bytes.slice(start, cuts[i] ?? bytes.length));
}

function fed(chunks) {
  const points = new CodePoints();
  return [...chunks.map((chunk) => points.feed(chunk)), points.rest()];
}

test("wherever a text is cut, every chunk is whole code points", () => {
  const chance = chanceFrom(1);
  const letters = [...LANGUAGES];
  for (let i = 0; i < TEXTS; i++) {
    const text = Array.from({ length: below(chance, 30) }, () => letters[below(chance, letters.length)]).join("");

    const told = fed(cutAtRandom(chance, utf8(text)));

    assert.equal(told.map(textOf).join(""), text);
  }
});

test("no byte is lost, added or moved, and at most three are held back, whatever came", () => {
  const chance = chanceFrom(2);
  for (let i = 0; i < TEXTS; i++) {
    // Few ASCII characters, so that most are parts of code points, right ones and wrong ones.
    const bytes = Uint8Array.from({ length: below(chance, 60) }, () => 0x70 + below(chance, 0x90));
    const points = new CodePoints();
    let held = 0;

    const told = cutAtRandom(chance, bytes).map((chunk) => {
      const out = points.feed(chunk);
      held += chunk.length - out.length;
      assert.ok(held >= 0 && held <= 3);
      return out;
    });

    assert.deepEqual(joined([...told, points.rest()]), bytes);
  }
});

test("one byte at a time, each code point comes with its last byte", async () => {
  async function* bytewise() {
    for (const byte of utf8(LANGUAGES)) yield Uint8Array.of(byte);
  }
  const told = [];

  for await (const chunk of cutAnew(bytewise())) told.push(textOf(chunk));

  assert.deepEqual(told, [...LANGUAGES]);
});

test("what is no beginning of a code point is not waited for", () => {
  for (const bytes of [[0xff], [0x61, 0x80], [0xc0], [0xf8], [0xe1, 0x61], [0xf5, 0x80]]) {
    assert.deepEqual(new CodePoints().feed(Uint8Array.from(bytes)), Uint8Array.from(bytes));
  }
});

test("only text in UTF-8 is cut anew", () => {
  const kinds = {
    "application/json": true,
    "application/problem+json; charset=UTF-8": true,
    'text/plain; charset="utf-8"': true,
    "text/event-stream": true,
    "text/html; charset=iso-8859-1": false,
    "audio/mpeg": false,
    "application/octet-stream": false,
    "": false,
  };
  for (const [kind, so] of Object.entries(kinds)) assert.equal(isUtf8(kind), so, kind);
});
