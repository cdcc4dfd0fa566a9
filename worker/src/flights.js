/** The flights in the air, by key, and for moments what became of them (rule L1). */

import { Aftermath } from "./aftermath.js";
import { LATER } from "./contract/endings.js";
import { Flight } from "./flight.js";

/** Flights of one key that ask the route's further origins where the first one fails, and those that don't, are two. */
export class Flights {
  #aftermath;
  #byPlace = new Map();
  #all = new Set();

  constructor({ room, nowMs = Date.now }) {
    this.room = room;
    this.#aftermath = new Aftermath({ nowMs });
  }

  /** How many still bring something. */
  get size() {
    return [...this.#all].filter((flight) => !flight.ended).length;
  }

  /** All who ride now. */
  get riders() {
    return [...this.#all].reduce((sum, flight) => sum + flight.riders.size, 0);
  }

  /** What is held for moments of flights that have ended. */
  get leftBytes() {
    return this.#aftermath.heldBytes;
  }

  get leftLimitBytes() {
    return this.#aftermath.limitBytes;
  }

  /**
   * A seat in the flight for a key, if there is one that can still be joined and tells usage where wanted.
   *
   * Where its last flight brought an error a moment ago, one in that: an echo.
   */
  join(key, { usage, asksOthers = true }) {
    const flight = this.#byPlace.get(placeOf(key, asksOthers));
    if (flight !== undefined && flight.canBeJoined && (flight.tellsUsage || !usage)) return flight.board();
    const left = this.#aftermath.of(placeOf(key, asksOthers))?.flight ?? null;
    if (left === null || (usage && !left.tellsUsage)) return null;
    return left.board({ isEcho: true });
  }

  /** Whether a flight for a key is in the air that can be joined. */
  flies(key) {
    return BOTH.some((asksOthers) => this.#byPlace.get(placeOf(key, asksOthers))?.canBeJoined ?? false);
  }

  /** Whether a flight for a key left a moment ago that its origin rests, or that its callers fly alone. */
  hasMark(key) {
    return BOTH.some((asksOthers) => this.#aftermath.of(placeOf(key, asksOthers)) !== null);
  }

  /**
   * A seat in a new flight, which later callers of the key may join; `later` lets it end after the caller's answer.
   *
   * One that is not shared takes nobody else aboard, leaves nothing behind, and hinders no other.  `ownBytes` is what
   * its landing holds.
   */
  start(key, takeOff, more) {
    const { landing, finishesAlone, tellsUsage, asksOthers = true, isShared = true, ownBytes = 0, later } = more;
    this.#sweep();
    const place = placeOf(key, asksOthers);
    const mark = this.#aftermath.of(place);
    const flight = new Flight(key, {
      landing,
      finishesAlone,
      tellsUsage,
      room: this.room,
      landed: () => this.#landed(flight),
      leaves: () => (isShared ? this.#leave(place, flight, ownBytes) : undefined),
    });
    if (isShared && (mark === null || mark.flight !== null)) this.#byPlace.set(place, flight);
    this.#all.add(flight);
    const ride = flight.board();
    later(flight.fly(takeOff, { later }).finally(() => this.#ended(place, flight)));
    return ride;
  }

  /** Whatever is in the air for a key goes to those aboard and is not kept; what earlier ones left is gone. */
  forget(key) {
    for (const place of BOTH.map((asksOthers) => placeOf(key, asksOthers))) {
      this.#aftermath.forget(place);
      this.#byPlace.delete(place);
    }
    for (const flight of this.#all) if (flight.key === key) flight.landing.shut();
  }

  /** A flight whose request is gone is of no use to anyone. */
  lost(flight) {
    for (const asksOthers of BOTH) this.#ended(placeOf(flight.key, asksOthers), flight);
    flight.lost();
  }

  #leave(place, flight, ownBytes) {
    const { ending } = flight;
    // What was forgotten in part can't be told again.
    const isTold = ending?.later === LATER.SAME && !flight.hasAll;
    this.#aftermath.leave(place, isTold ? null : ending, flight, {
      cameBytes: flight.cameBytes,
      ownBytes: ownBytes + flight.headBytes,
      isAlive: () => flight.landing.isOpen(),
    });
  }

  /** Those who began before a flight whose answer was kept no longer land. */
  #landed(flight) {
    for (const older of this.#all) {
      if (older === flight) return;
      if (older.key === flight.key) older.landing.supersede();
    }
  }

  /** Flights whose request was ended by the platform hold nothing any more. */
  #sweep() {
    for (const flight of this.#all) if (flight.isSilent) this.lost(flight);
  }

  #ended(place, flight) {
    this.#all.delete(flight);
    if (this.#byPlace.get(place) === flight) this.#byPlace.delete(place);
  }
}

const BOTH = [true, false];

function placeOf(key, asksOthers) {
  return asksOthers ? key : `${key} first`;
}
