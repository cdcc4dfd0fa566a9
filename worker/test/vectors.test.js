/** This side keeps every vector of contract/vectors/; test/edge/ runs them in the platform's own JavaScript. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { OPERATIONS, outcomeOf, wanted } from "../operations/outcomes.js";
import { VECTORS } from "./vectors.js";

const LEAST_VECTORS = 300;
const ran = new Set();

for (const vector of VECTORS) {
  test(`${vector.rule}: ${vector.name}`, async () => {
    ran.add(vector.name);

    const outcome = await outcomeOf(vector);

    assert.deepStrictEqual(outcome, wanted(vector, outcome));
  });
}

test("there are enough vectors", () => {
  assert.ok(VECTORS.length >= LEAST_VECTORS);
});

test("every operation has a vector", () => {
  assert.deepStrictEqual(Object.keys(OPERATIONS).sort(), [...new Set(VECTORS.map(({ op }) => op))].sort());
});

test("every vector ran", () => {
  assert.deepStrictEqual([...ran].sort(), VECTORS.map(({ name }) => name).sort());
});
