/** A stream of server-sent events is the same in whatever chunks it comes. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { chanceFrom } from "../operations/chance.js";
import { joined, textOf, utf8 } from "../src/contract/bytes.js";
import { Splitter, split } from "../src/contract/events.js";

const FIELDS = ["data: a", "data", "event: x", ": c", "\ufeff", "é", "x".repeat(700)];
const PARTS = [...FIELDS, "\n", "\n\n", "\r", "\r\n", "\r\n\r\n"];
const TRANSCRIPTS = 3000;

function below(chance, limit) {
  return Math.floor(chance() * limit);
}

function transcriptFrom(chance) {
  return utf8(Array.from({ length: below(chance, 24) }, () => PARTS[below(chance, PARTS.length)]).join(""));
}

function chunksOf(chance, bytes) {
  const cuts = Array.from({ length: below(chance, 12) }, () => below(chance, bytes.length + 1)).sort((a, b) => a - b);
  return [0, ...cuts].map((start, i) => bytes.slice(start, cuts[i] ?? bytes.length));
}

test("any chunking gives the same events", () => {
  const chance = chanceFrom(3673);
  for (let i = 0; i < TRANSCRIPTS; i++) {
    const transcript = transcriptFrom(chance);
    const splitter = new Splitter();

    const fed = chunksOf(chance, transcript).flatMap((chunk) => splitter.feed(chunk));

    // The stream is over, so a CR that waited for its LF ends its line.
    const [last, rest] = split(splitter.rest());
    const [events, wantedRest] = split(transcript);
    const found = [...fed, ...last.map(({ raw }) => raw)];
    assert.deepStrictEqual(found.map(textOf), events.map(({ raw }) => textOf(raw)));
    assert.deepStrictEqual(rest, wantedRest);
    assert.deepStrictEqual(joined([...found, rest]), transcript);
  }
});
