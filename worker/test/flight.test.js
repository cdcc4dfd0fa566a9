/** Flights by themselves: lost ones, overlong ones, slow riders (rules L1, L2). */

import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { utf8 } from "../src/contract/bytes.js";
import { OriginCut } from "../src/errors.js";
import { AHEAD_BYTES, BEAT_MS, Flight, FlightLost, PATIENCE_MS, SILENCE_MS } from "../src/flight.js";
import { Flights } from "../src/flights.js";
import { Room } from "../src/room.js";

const LANDING = { largestBytes: 2 ** 20, isOpen: () => true, land: async () => null, shut: () => {} };

function incoming(chunks) {
  return { status: 200, headers: [], length: null, chunks, close: () => {} };
}

function started(flights, chunks, more = {}) {
  const later = (promise) => more.ends?.push(promise);
  const options = { landing: LANDING, finishesAlone: false, tellsUsage: true, ...more, later };
  return flights.start("key", async () => incoming(chunks), options);
}

async function allOf(ride) {
  const all = [];
  try {
    for await (const chunk of ride.chunks()) all.push(chunk.length);
  } finally {
    ride.leave();
  }
  return all.reduce((sum, length) => sum + length, 0);
}

async function settle() {
  for (let turn = 0; turn < 50; turn++) await Promise.resolve();
}

test("who rides in a flight whose request is gone hears so within seconds", async () => {
  mock.timers.enable({ apis: ["setInterval", "Date"] });
  try {
    // Boarded, and never flown: as after its request was ended.
    const flight = new Flight("key", { landing: LANDING, finishesAlone: false, tellsUsage: true, room: new Room(1e9) });
    const waiting = assert.rejects(flight.board().head(), FlightLost);

    for (let waitedMs = 0; waitedMs <= SILENCE_MS + BEAT_MS; waitedMs += BEAT_MS) {
      await settle();
      mock.timers.tick(BEAT_MS);
    }

    await waiting;
    assert.equal(flight.canBeJoined, false);
  } finally {
    mock.timers.reset();
  }
});

test("an overlong answer goes on at the pace of the slowest, and no one else gets in", async () => {
  const flights = new Flights({ room: new Room(1e9) });
  const piece = new Uint8Array(64 * 1024);
  let sent = 0;
  const slow = started(flights, async function* () {
    for (; sent < 64; sent++) yield piece;
  });
  const fast = flights.join("key", { usage: false });
  const reading = allOf(fast);
  await new Promise((turn) => setImmediate(turn));

  const ahead = sent;
  assert.equal(flights.join("key", { usage: false }), null);
  const [one, other] = await Promise.all([allOf(slow), reading]);

  assert.ok(ahead * piece.length <= LANDING.largestBytes + AHEAD_BYTES + 2 * piece.length, `${ahead} pieces ahead`);
  assert.deepEqual([one, other], [64 * piece.length, 64 * piece.length]);
});

test("who reads nothing of an overlong answer is put off, and the others go on", async () => {
  mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  try {
    const flights = new Flights({ room: new Room(1e9) });
    const piece = new Uint8Array(64 * 1024);
    const idle = started(flights, async function* () {
      for (let sent = 0; sent < 64; sent++) yield piece;
    });
    const reading = allOf(flights.join("key", { usage: false }));
    let goneTo = 0;
    idle.whenGone = () => (goneTo += 1);
    for (let waitedMs = 0; waitedMs <= PATIENCE_MS; waitedMs += BEAT_MS) {
      for (let turn = 0; turn < 20; turn++) await settle();
      mock.timers.tick(BEAT_MS);
    }

    assert.equal(await reading, 64 * piece.length);
    await assert.rejects(allOf(idle), OriginCut);
    assert.equal(goneTo, 1);
  } finally {
    mock.timers.reset();
  }
});

test("when nobody rides any more the origin is told to stop, and nothing lands", async () => {
  const flights = new Flights({ room: new Room(1e9) });
  const ends = [];
  let signal;
  let landed = 0;
  const landing = { ...LANDING, land: async () => ((landed += 1), null) };
  const later = (promise) => ends.push(promise);
  const takeOff = async (given) => {
    signal = given;
    return incoming(async function* () {
      yield utf8("half");
      await new Promise((stopped) => given.addEventListener("abort", stopped));
      yield utf8("more");
    });
  };
  const ride = flights.start("key", takeOff, { landing, finishesAlone: false, tellsUsage: true, later });
  await ride.head();

  ride.leave();
  await Promise.all(ends);

  assert.ok(signal.aborted);
  assert.deepEqual([landed, flights.size, flights.room.heldBytes], [0, 0, 0]);
});

test("a flight that may finish alone lands without anybody aboard", async () => {
  const flights = new Flights({ room: new Room(1e9) });
  const ends = [];
  let landed = 0;
  const landing = { ...LANDING, land: async () => ((landed += 1), null) };

  started(flights, async function* () { yield utf8("all"); }, { landing, finishesAlone: true, ends }).leave();
  await Promise.all(ends);

  assert.equal(landed, 1);
});

test("when all flights together hold too much, none can be joined and nothing of them is kept", async () => {
  const flights = new Flights({ room: new Room(1000) });
  const ends = [];
  let landed = 0;
  const landing = { ...LANDING, land: async () => ((landed += 1), null) };

  const ride = started(flights, async function* () { yield new Uint8Array(2000); }, { landing, ends });
  const got = await allOf(ride);
  await Promise.all(ends);

  assert.deepEqual([got, landed, ride.flight.whyNotKept], [2000, 0, "too-long"]);
  assert.equal(flights.room.heldBytes, 0);
});
