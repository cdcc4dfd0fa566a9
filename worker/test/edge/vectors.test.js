/** workerd keeps every vector of contract/vectors/: its JavaScript, its digests, its text decoders. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { wanted } from "../../operations/outcomes.js";
import { VECTORS } from "../vectors.js";
import { running } from "./running.js";

const AT_ONCE = 200;
let edge;

before(async () => {
  edge = await running("test/edge/vectors_under_test.js");
});
after(() => edge.stop());

test("every vector is kept in workerd, and as many ran as there are", async () => {
  const outcomes = [];
  for (let at = 0; at < VECTORS.length; at += AT_ONCE) {
    outcomes.push(...JSON.parse((await edge.post("/", VECTORS.slice(at, at + AT_ONCE))).body));
  }

  const broken = VECTORS.flatMap((vector, i) => {
    const { rule, name } = vector;
    const outcome = outcomes[i] ?? { fault: "it did not run" };
    try {
      assert.deepStrictEqual(outcome, wanted(vector, outcome));
      return [];
    } catch {
      return [{ rule, name, outcome, wanted: wanted(vector, outcome) }];
    }
  });
  assert.equal(outcomes.length, VECTORS.length);
  assert.deepEqual(broken, []);
});
