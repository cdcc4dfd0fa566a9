/**
 * What this side makes of JSON texts, one a line: `node digests.js <texts >outcomes`.
 *
 * A line that comes in is a JSON string that holds the text, or an object {"base64": …} that holds its bytes.  The line
 * that goes out is the hex SHA-256 of the text's canonical form, `unkeyable-` and why, or `malformed`.
 */

import { createInterface } from "node:readline";

import { digest, utf8 } from "../src/contract/bytes.js";
import { canonical, read } from "../src/contract/canonical.js";
import { Malformed, Unkeyable } from "../src/contract/errors.js";

export async function outcomeOf(bytes) {
  try {
    return await digest(utf8(canonical(read(bytes))));
  } catch (error) {
    if (error instanceof Unkeyable) return `unkeyable-${error.why}`;
    if (error instanceof Malformed) return "malformed";
    throw error;
  }
}

function bytesOfLine(line) {
  const told = JSON.parse(line);
  return typeof told === "string" ? utf8(told) : new Uint8Array(Buffer.from(told.base64, "base64"));
}

// `node --test` runs every file of this folder, and gives it nothing to read.
if (import.meta.filename === process.argv[1] && !process.env.NODE_TEST_CONTEXT) {
  for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
    process.stdout.write(`${await outcomeOf(bytesOfLine(line))}\n`);
  }
}
