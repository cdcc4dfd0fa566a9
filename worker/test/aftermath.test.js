/** What ended flights leave for moments, and what they don't (rule L1). */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Aftermath, LONGEST_TOLD_BYTES } from "../src/aftermath.js";
import { ending } from "../src/contract/endings.js";
import { OriginCut, Refused } from "../src/errors.js";
import { Flights } from "../src/flights.js";
import { Room } from "../src/room.js";

const FAILED = ending({ status: 500, clean: true, storable: false, sentAny: true, retried: true });
const UNKEPT = ending({ status: 200, clean: true, storable: false, sentAny: true, retried: true });
const FLIGHT = { name: "a flight" };

function left(ending, { cameBytes = 10, isAlive = () => true, nowMs = () => 0, limitBytes = 1e6 } = {}) {
  const aftermath = new Aftermath({ nowMs, limitBytes });
  aftermath.leave("key", ending, FLIGHT, { cameBytes, ownBytes: 0, isAlive });
  return aftermath;
}

test("an error is told again for a second", () => {
  let nowMs = 0;
  const aftermath = left(FAILED, { nowMs: () => nowMs });

  nowMs = 999;
  assert.equal(aftermath.of("key").flight, FLIGHT);
  nowMs = 1000;
  assert.equal(aftermath.of("key"), null);
  assert.equal(aftermath.heldBytes, 0);
});

test("after what can't be kept callers fly alone for five seconds", () => {
  let nowMs = 0;
  const aftermath = left(UNKEPT, { nowMs: () => nowMs });

  nowMs = 4999;
  assert.equal(aftermath.of("key").flight, null);
  nowMs = 5000;
  assert.equal(aftermath.of("key"), null);
});

test("what was purged since is forgotten", () => {
  let isAlive = true;
  const aftermath = left(FAILED, { isAlive: () => isAlive });

  isAlive = false;

  assert.equal(aftermath.of("key"), null);
});

test("a long error is not told again", () => {
  assert.equal(left(FAILED, { cameBytes: LONGEST_TOLD_BYTES + 1 }).of("key"), null);
});

test("the oldest are forgotten when too much is held", () => {
  const aftermath = left(FAILED, { limitBytes: 20_000 });

  for (const place of ["two", "three"]) {
    aftermath.leave(place, FAILED, FLIGHT, { cameBytes: 0, ownBytes: 0, isAlive: () => true });
  }

  assert.deepEqual(["key", "two", "three"].map((place) => aftermath.of(place) !== null), [false, true, true]);
  assert.ok(aftermath.heldBytes <= 20_000);
});

/** A key whose flight ended like this; what the next caller joins. */
async function joinedAfter({ error = null, status = 200, isOpen = true, whyNot = null, chunks = ["x"], usage = false }) {
  const flights = new Flights({ room: new Room(1e9), nowMs: () => 0 });
  const landing = { largestBytes: 2 ** 20, isOpen: () => isOpen, land: async () => whyNot, supersede: () => {} };
  const ends = [];
  const incoming = {
    status,
    headers: [],
    isFallback: false,
    close: () => {},
    async *chunks() {
      yield* chunks.map((text) => new TextEncoder().encode(text));
    },
  };
  const takeOff = async () => {
    if (error !== null) throw error;
    return incoming;
  };
  const more = { landing, finishesAlone: false, tellsUsage: false, later: (promise) => ends.push(promise) };
  const ride = flights.start("key", takeOff, more);
  await ride.whole().catch(() => {});
  ride.leave();
  await Promise.all(ends);
  return flights.join("key", { usage });
}

test("an echo brings the bytes of a flight that has ended", async () => {
  const ride = await joinedAfter({ status: 500, chunks: ["no", "thing"] });

  assert.ok(ride.isEcho);
  assert.equal(new TextDecoder().decode(await ride.whole()), "nothing");
});

for (const [what, ended] of [
  ["an answer that was kept", {}],
  ["an error of the caller's own", { status: 404, whyNot: "status" }],
  ["one lost before its first byte", { error: new OriginCut("lost") }],
  ["one that the origin refused", { error: new Refused("no") }],
  ["one that was purged meanwhile", { status: 500, isOpen: false }],
  ["an error that doesn't tell the usage asked for", { status: 500, usage: true }],
]) {
  test(`${what} leaves no echo`, async () => {
    assert.equal(await joinedAfter(ended), null);
  });
}
