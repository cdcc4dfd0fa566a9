/** Answers to several inputs, taken apart and put together. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { textOf, utf8 } from "../src/contract/bytes.js";
import { asBase64, ofNumbers } from "../src/contract/float32.js";
import { FORMS, Unsplit, added, asking, inForm, joined, pieceOf, shares, split } from "../src/projections/embedding.js";
import { NotAnAnswer } from "../src/projections/fold.js";
import { Numeral, plain } from "../src/projections/verbatim.js";

const ROUNDS = 200;

function below(end) {
  return Math.floor(Math.random() * end);
}

/** Texts, each once, of lengths one to nine. */
function someTexts() {
  return Array.from({ length: 1 + below(8) }, (_, place) => `${place}${"ä".repeat(below(5))}`);
}

/** The vector of a text, the same each time. */
function vectorOf(text, form) {
  const numbers = [text.length / 4, -Number(text[0]) - 0.5, 0.25];
  return form === "base64" ? asBase64(ofNumbers(numbers)) : numbers;
}

function bodyOf(texts, form = "float") {
  const data = texts.map((text, index) => ({ object: "embedding", index, embedding: vectorOf(text, form) }));
  const tokens = texts.reduce((sum, text) => sum + utf8(text).length, 0);
  return utf8(JSON.stringify({ object: "list", data, model: "m", usage: { prompt_tokens: tokens, total_tokens: tokens } }));
}

function oneByOne(texts, form = "float") {
  return split(bodyOf(texts, form), texts.map((text) => utf8(text).length));
}

function valueOf(body) {
  return JSON.parse(textOf(body));
}

test("an answer taken apart and put together is itself, in whichever form it came and is wanted", () => {
  for (const came of FORMS) {
    for (const wanted of FORMS) {
      const texts = someTexts();
      const pieces = oneByOne(texts, came).map((one) => pieceOf(one, wanted));

      assert.deepEqual(valueOf(joined(pieces)), valueOf(bodyOf(texts, wanted)));
    }
  }
});

test("whatever was asked before, the answer is the same", () => {
  for (let round = 0; round < ROUNDS; round += 1) {
    const texts = someTexts();
    const kept = new Map();
    const before = Array.from({ length: below(4) }, () => texts.filter(() => below(2) === 0));
    for (const asked of [...before, texts]) {
      const missing = asked.filter((text) => !kept.has(text));
      if (missing.length > 0) oneByOne(missing).forEach((body, place) => kept.set(missing[place], body));
    }
    const asked = Array.from({ length: 1 + below(12) }, () => texts[below(texts.length)]);

    assert.deepEqual(valueOf(joined(asked.map((text) => pieceOf(kept.get(text), "float")))), valueOf(bodyOf(asked)));
  }
});

test("shares add up, and are as near to the weights as whole numbers are", () => {
  for (let round = 0; round < ROUNDS; round += 1) {
    const total = below(1e9);
    const weights = Array.from({ length: 1 + below(30) }, () => 1 + below(1e6));
    const together = weights.reduce((sum, weight) => sum + weight, 0);
    const number = new Numeral(String(total));
    const told = shares(new Map([["n", number], ["in", new Map([["m", number]])], ["cost", new Numeral("0.5")]]), weights);

    const sum = plain(added(told.length > 1 ? told : [...told, new Map()]));
    assert.deepEqual(sum, { n: total, in: { m: total } });
    weights.forEach((weight, place) => assert.ok(Math.abs(told[place].get("n").whole - (total * weight) / together) < 1));
  }
});

test("of equal remainders the first input gets more", () => {
  const told = shares(new Map([["n", new Numeral("5")]]), [1, 1, 1]);

  assert.deepEqual(told.map((share) => share.get("n").whole), [2, 2, 1]);
});

test("numbers and members keep their text and their order", () => {
  const body = utf8(`{"x": 1.0, "data": [ {"embedding": [1.50, -0, 1e-07], "n": 12345678901234567890, "index": 1},
    {"index": 0, "embedding": [2, 3.0, 4]} ], "usage": {"total_tokens": 4}, "model": "m\\u00e4"}`);

  const [first, second] = split(body, [1, 1]);

  assert.equal(
    textOf(second),
    '{"x":1.0,"data":[{"embedding":[1.50,-0,1e-07],"n":12345678901234567890,"index":0}],' +
      '"usage":{"total_tokens":2},"model":"mä"}',
  );
  const told = textOf(joined([pieceOf(second, "float"), pieceOf(first, "float")]));
  assert.ok(
    told.startsWith('{"x":1.0,"data":[{"embedding":[1.50,-0,1e-07],"n":12345678901234567890,"index":0},{"index":1,'),
  );
});

test("an answer in the form asked for keeps its bytes", () => {
  const body = bodyOf(["1"]);

  assert.equal(inForm(body, "float"), body);
});

test("usage is told only where every part tells some", () => {
  const { usage, ...rest } = valueOf(oneByOne(["1"])[0]);
  const pieces = [pieceOf(utf8(JSON.stringify(rest)), "float"), pieceOf(oneByOne(["2"])[0], "float")];

  assert.ok(usage);
  assert.equal(valueOf(joined(pieces)).usage, undefined);
  assert.equal(valueOf(joined(pieces.reverse())).usage, undefined);
});

test("vectors of two lengths are not put together", () => {
  const longer = utf8('{"data":[{"index":0,"embedding":[1,2,3,4]}]}');

  assert.throws(() => joined([pieceOf(longer, "float"), pieceOf(bodyOf(["1"]), "float")]), NotAnAnswer);
});

test("what is no answer to two inputs is not taken apart, and it is told why", () => {
  const item = '{"index":0,"embedding":[1]}';
  const wrong = new Map([
    ["", "shape"],
    ["[]", "shape"],
    ["{", "shape"],
    ["null", "shape"],
    ['{"data":1}', "shape"],
    ['{"data":[1,2]}', "shape"],
    ['{"error":{},"data":[]}', "error"],
    [`{"data":[${item}]}`, "count"],
    [`{"data":[${item},${item}]}`, "index"],
    [`{"data":[${item},{"index":1,"embedding":[NaN]}]}`, "shape"],
    [`{"data":[${item},{"index":1,"embedding":[1,2]}]}`, "lengths"],
    [`{"data":[${item},{"index":1,"embedding":[1]}],"x":"\\ud800"}`, "shape"],
  ]);
  for (const [text, why] of wrong) {
    assert.throws(() => split(utf8(text), [1, 1]), (error) => error instanceof Unsplit && error.why === why, text);
  }
  assert.throws(() => split(new Uint8Array([0xff]), [1, 1]), Unsplit);
});

test("only the inputs that are missing are asked for, all else in its own text", () => {
  const body = utf8('{"model": "m", "input": ["a", "b,]", "ä"], "dimensions": 1e1}');

  const { body: told, weights } = asking(body, [1, 2]);

  assert.equal(textOf(told), '{"model":"m","input":["b,]","ä"],"dimensions":1e1}');
  assert.deepEqual(weights, [3, 2]);
});
