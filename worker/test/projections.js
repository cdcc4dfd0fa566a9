/**
 * What this side makes of recorded answers, one a line: `node projections.js <answers >outcomes`.
 *
 * A line that comes in is an object with `operation`, `shape`, `body` and `randomness`, the last two in base64.  The line
 * that goes out lists the texts of all that can be made of it, or null where it is no answer.
 */

import { createInterface } from "node:readline";

import { bytesOf, text } from "../operations/values.js";
import { NotAnAnswer } from "../src/projections/fold.js";
import { events, whole } from "../src/projections/shapes.js";

async function thereAndBack(operation, body, { shape }) {
  if (shape === "whole") {
    const transcript = await events(operation, body, { shape, usage: true });
    return whole(operation, transcript, { shape: "events" });
  }
  const answer = await whole(operation, body, { shape });
  return events(operation, answer, { shape: "whole", usage: true });
}

const WAYS = [
  (operation, body, { shape }) => whole(operation, body, { shape }),
  (operation, body, { shape, randomness }) => whole(operation, body, { shape, randomness }),
  (operation, body, { shape }) => events(operation, body, { shape, usage: true }),
  (operation, body, { shape }) => events(operation, body, { shape, usage: false }),
  (operation, body, { shape, randomness }) => events(operation, body, { shape, usage: true, randomness }),
  thereAndBack,
];

async function outcomesOf({ operation, shape, ...told }) {
  const [body, randomness] = [bytesOf({ base64: told.body }), bytesOf({ base64: told.randomness })];
  return Promise.all(WAYS.map((way) => textOrNull(way(operation, body, { shape, randomness }))));
}

async function textOrNull(made) {
  try {
    return text(await made);
  } catch (error) {
    if (error instanceof NotAnAnswer) return null;
    throw error;
  }
}

// `node --test` runs every file of this folder, and gives it nothing to read.
if (import.meta.filename === process.argv[1] && !process.env.NODE_TEST_CONTEXT) {
  for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
    process.stdout.write(`${JSON.stringify(await outcomesOf(JSON.parse(line)))}\n`);
  }
}
