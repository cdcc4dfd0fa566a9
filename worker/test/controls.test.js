/** A `cache` member of a body may have any number of members: they are read in one pass. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { bodyControls } from "../src/contract/aliases.js";
import { controls } from "../src/contract/controls.js";

test("of many members that can't be read eight are told, and the wishes among them count", () => {
  const many = Object.fromEntries(Array.from({ length: 100_000 }, (_, n) => [`x${n}`, n]));

  const settled = bodyControls({ namespace: "n", ttl: "soon", ...many, "s-maxage": 9, "no-store": true });

  const told = ["cache.ttl", ...Array.from({ length: 7 }, (_, n) => `cache.x${n}`)];
  assert.deepEqual(settled, controls({ noStore: true, maxAgeS: 9, children: ["n"], ignoredAliases: told }));
});
