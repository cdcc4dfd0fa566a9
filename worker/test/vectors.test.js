/** This side keeps every vector of contract/vectors/. */

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";

import { ForetoldError, Refused, Unkeyable } from "../src/contract/errors.js";
import { NotAnAnswer } from "../src/projections/fold.js";
import { OPERATIONS as OF_ANSWERS } from "../operations/answers.js";
import { OPERATIONS as OF_KEYS } from "../operations/keys.js";
import { OPERATIONS as OF_PROJECTIONS } from "../operations/projections.js";
import { STATUSES, bytesOf } from "../operations/values.js";

const FOLDER = new URL("../../contract/vectors/", import.meta.url);
const OPERATIONS = { ...OF_KEYS, ...OF_ANSWERS, ...OF_PROJECTIONS };
const LEAST_VECTORS = 300;

const all = readdirSync(FOLDER)
  .filter((file) => file.endsWith(".json"))
  .sort()
  .flatMap((file) => JSON.parse(readFileSync(new URL(file, FOLDER), "utf8")));
const ran = new Set();

function errorOf(error) {
  if (error instanceof Unkeyable) return error.why;
  if (error instanceof Refused) assert.equal(error.status, STATUSES[error.code]);
  if (error instanceof ForetoldError) return error.code;
  if (error instanceof NotAnAnswer) return "not_an_answer";
  if (error instanceof RangeError) return "unpackable";
  if (error instanceof TypeError && error.code === "ERR_ENCODING_INVALID_ENCODED_DATA") return "not_utf8";
  throw error;
}

async function outcomeOf({ op, in: given }) {
  try {
    return { out: await OPERATIONS[op](given) };
  } catch (error) {
    return { error: errorOf(error) };
  }
}

/** An outcome as its vector tells it: bytes in hex, all else as JSON has it. */
function told(outcome) {
  if (outcome.out instanceof Uint8Array) return { out: Buffer.from(outcome.out).toString("hex") };
  return JSON.parse(JSON.stringify(outcome));
}

function wanted(vector, outcome) {
  if ("error" in vector) return { error: vector.error };
  return { out: outcome.out instanceof Uint8Array ? Buffer.from(bytesOf(vector.out)).toString("hex") : vector.out };
}

for (const vector of all) {
  test(`${vector.rule}: ${vector.name}`, async () => {
    ran.add(vector.name);
    assert.ok(Object.hasOwn(OPERATIONS, vector.op), `there is no operation ${vector.op}`);

    const outcome = await outcomeOf(vector);

    assert.deepStrictEqual(told(outcome), wanted(vector, outcome));
  });
}

test("there are enough vectors", () => {
  assert.ok(all.length >= LEAST_VECTORS);
});

test("every operation has a vector", () => {
  assert.deepStrictEqual(Object.keys(OPERATIONS).sort(), [...new Set(all.map(({ op }) => op))].sort());
});

test("every vector ran", () => {
  assert.deepStrictEqual([...ran].sort(), all.map(({ name }) => name).sort());
});
