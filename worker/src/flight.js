/**
 * One run of an origin for a key, shared by all who ask this isolate meanwhile.
 *
 * The flight runs in the request that started it, which goes on for at most 30 s after its own caller has left; so it
 * beats once a second, and whoever rides along and hears nothing for 3 s knows that it is lost (as between processes,
 * rule L2).  Riders share bytes, never the platform's streams, which belong to one request.  What is landed is landed
 * before any rider sees the end.  An answer too long to be shared goes on for those aboard, at the pace of the slowest.
 */

import { Buffer } from "./buffer.js";
import { ForetoldError, OriginCut, OriginError } from "./errors.js";

export const BEAT_MS = 1000;
export const SILENCE_MS = 3000;
export const AHEAD_BYTES = 256 * 1024;
export const LONGEST_WHOLE_BYTES = 8 * 2 ** 20;
export const PATIENCE_MS = 30_000;

/** The request that flew is gone, and with it the flight. */
export class FlightLost extends OriginCut {}

export class Flight {
  incoming = null;
  error = null;
  ended = false;
  whyNotKept = null;
  riders = new Set();
  #finishesAlone;
  #buffer = new Buffer();
  #abort = new AbortController();
  #beatMs = Date.now();
  #caughtUp = null;
  #emptied = null;
  #givenUp = false;
  #isReleased = false;
  #room;

  /** `room` is what all flights of the isolate may hold together. */
  constructor(key, { landing, finishesAlone, tellsUsage, room }) {
    this.key = key;
    this.landing = landing;
    this.tellsUsage = tellsUsage;
    this.#finishesAlone = finishesAlone;
    this.#room = room;
  }

  /** Whether its buffer still holds all that has come, and that can be kept. */
  get isWhole() {
    return this.#buffer.isWhole && this.#buffer.cameBytes <= this.landing.largestBytes && !this.#room.isOver;
  }

  get landedWhole() {
    return this.ended && this.error === null && this.#buffer.isWhole;
  }

  get body() {
    return this.#buffer.joined();
  }

  get canBeJoined() {
    return this.isWhole && !this.ended && !this.#givenUp && !this.isSilent && this.landing.isOpen();
  }

  get isSilent() {
    return Date.now() - this.#beatMs > SILENCE_MS;
  }

  board() {
    const ride = new Ride(this);
    this.riders.add(ride);
    return ride;
  }

  left(ride) {
    this.riders.delete(ride);
    this.movedOn();
    if (this.riders.size === 0) this.#emptied?.();
    if (this.riders.size === 0 && !this.ended && !this.#finishesAlone) this.#giveUp();
  }

  chunk(place) {
    return this.#buffer.at(place);
  }

  /** A rider read a chunk or left: an overlong flight forgets what all have read. */
  movedOn() {
    if (this.isWhole) return;
    const slowest = Math.min(this.#buffer.end, ...Array.from(this.riders, (ride) => ride.place));
    const before = this.#buffer.heldBytes;
    if (this.#buffer.forgetBefore(slowest)) {
      if (!this.#isReleased) this.#room.take(this.#buffer.heldBytes - before);
      this.#caughtUp?.();
    }
  }

  /**
   * Runs to the end, whatever it is, and until all have read it.
   *
   * `takeOff` asks the origin and is told by a signal when nobody waits any more.
   */
  async fly(takeOff, { later }) {
    const beating = setInterval(() => this.#beat(), BEAT_MS);
    await this.#run(takeOff, later);
    if (this.riders.size > 0) await new Promise((emptied) => (this.#emptied = emptied));
    clearInterval(beating);
    this.#release();
  }

  async #run(takeOff, later) {
    try {
      this.incoming = await takeOff(this.#abort.signal);
      this.#throwIfGivenUp();
      this.#tell();
      for await (const chunk of this.incoming.chunks()) {
        this.#throwIfGivenUp();
        this.#buffer.add(chunk);
        this.#room.take(chunk.length);
        this.#tell();
        if (!this.isWhole) await this.#waitForRiders();
      }
      this.#throwIfGivenUp();
      this.whyNotKept = this.isWhole ? await this.#land(later) : "too-long";
    } catch (error) {
      this.error = error instanceof ForetoldError ? error : fault(error);
    } finally {
      this.ended = true;
      this.#tell();
      this.incoming?.close();
    }
  }

  /** Its request is gone, and nobody will end it. */
  lost() {
    this.ended = true;
    this.error ??= new FlightLost("the request that fetched this answer is gone: ask again");
    this.#tell();
    this.#release();
  }

  /** Gives back the room of its buffer. */
  #release() {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#room.take(-this.#buffer.heldBytes);
  }

  async #land(later) {
    try {
      return await this.landing.land(this.incoming, this.body, { later });
    } catch (error) {
      console.error("an answer could not be kept", error);
      return "fault";
    }
  }

  async #waitForRiders() {
    this.movedOn();
    while (this.riders.size > 0 && this.#buffer.heldBytes > AHEAD_BYTES) {
      await new Promise((resolve) => (this.#caughtUp = resolve));
      this.#caughtUp = null;
      this.#throwIfGivenUp();
    }
  }

  /** Goes on without those who read nothing for so long: the platform doesn't always tell that a caller has left. */
  #beat() {
    this.#beatMs = Date.now();
    for (const ride of this.riders) {
      const hasMoved = ride.place !== ride.lastPlace || (ride.place === this.#buffer.end && !this.ended);
      ride.idleMs = hasMoved ? 0 : ride.idleMs + BEAT_MS;
      ride.lastPlace = ride.place;
      if (ride.idleMs < PATIENCE_MS) continue;
      ride.putOff = new OriginCut("nothing of the answer was read for 30 s while more waited: ask again, read on");
      this.left(ride);
      ride.wake();
      ride.whenGone?.();
    }
  }

  #giveUp() {
    this.#givenUp = true;
    this.#abort.abort();
    this.incoming?.close();
    this.#caughtUp?.();
  }

  #throwIfGivenUp() {
    if (this.#givenUp) throw new OriginCut("the query was given up because nobody waited for it");
  }

  #tell() {
    this.#beatMs = Date.now();
    for (const ride of this.riders) ride.wake();
  }
}

/** One caller's seat in a flight.  Whoever boards must leave. */
export class Ride {
  place = 0;
  lastPlace = -1;
  idleMs = 0;
  putOff = null;
  /** What is to be done if it is put off. */
  whenGone = null;
  #awake = null;

  constructor(flight) {
    this.flight = flight;
  }

  /** The answer's head; throws what kept it from coming. */
  async head() {
    while (this.flight.incoming === null) {
      this.#throwIfFailed();
      await this.#wait();
    }
    return this.flight.incoming;
  }

  /** The body as it comes; throws OriginError if it breaks off. */
  async *chunks() {
    for (;;) {
      if (this.putOff !== null) throw this.putOff;
      const chunk = this.flight.chunk(this.place);
      if (chunk !== undefined) {
        this.place += 1;
        this.flight.movedOn();
        yield chunk;
      } else if (this.flight.ended) {
        this.#throwIfFailed();
        return;
      } else {
        await this.#wait();
      }
    }
  }

  /** All of the body; throws OriginError if it breaks off or is too long to be held. */
  async whole() {
    return collected(this.chunks());
  }

  /** Returns once all of the body is here, or is too long to be waited for; throws what kept it from coming. */
  async landing() {
    while (!this.flight.ended && this.flight.isWhole) await this.#wait();
    this.#throwIfFailed();
  }

  leave() {
    this.flight.left(this);
  }

  wake() {
    this.#awake?.();
  }

  /** Until there is news, or it is time to listen whether the flight still beats. */
  async #wait() {
    if (this.flight.isSilent) throw new FlightLost("the request that fetched this answer is gone: ask again");
    let timer;
    await new Promise((resolve) => {
      this.#awake = resolve;
      timer = setTimeout(resolve, BEAT_MS);
    });
    clearTimeout(timer);
    this.#awake = null;
  }

  #throwIfFailed() {
    if (this.flight.error !== null) throw this.flight.error;
  }
}

/** All chunks as one; throws OriginError if they are more than can be given in another shape. */
export async function collected(chunks) {
  const whole = new Buffer();
  for await (const chunk of chunks) {
    whole.add(chunk);
    if (whole.cameBytes > LONGEST_WHOLE_BYTES) {
      throw new OriginError(
        `the answer is longer than ${LONGEST_WHOLE_BYTES} bytes: too long to be given in another shape`,
      );
    }
  }
  return whole.joined();
}

/** The bytes that all flights of an isolate may hold together. */
export class Room {
  heldBytes = 0;
  mostBytes = 0;

  constructor(limitBytes) {
    this.limitBytes = limitBytes;
  }

  get isOver() {
    return this.heldBytes > this.limitBytes;
  }

  take(bytes) {
    this.heldBytes += bytes;
    this.mostBytes = Math.max(this.mostBytes, this.heldBytes);
  }
}

/** The flights in the air, by key. */
export class Flights {
  #byKey = new Map();
  #all = new Set();

  constructor({ room }) {
    this.room = room;
  }

  /** How many still bring something. */
  get size() {
    return [...this.#all].filter((flight) => !flight.ended).length;
  }

  /** All who ride now. */
  get riders() {
    return [...this.#all].reduce((sum, flight) => sum + flight.riders.size, 0);
  }

  /** A seat in the flight for a key, if there is one that can still be joined and tells usage where wanted. */
  join(key, { usage }) {
    const flight = this.#byKey.get(key);
    if (flight === undefined || !flight.canBeJoined || (usage && !flight.tellsUsage)) return null;
    return flight.board();
  }

  /** A seat in a new flight, which later callers of the key may join; `later` lets it end after the caller's answer. */
  start(key, takeOff, { landing, finishesAlone, tellsUsage, later }) {
    this.#sweep();
    const flight = new Flight(key, { landing, finishesAlone, tellsUsage, room: this.room });
    this.#byKey.set(key, flight);
    this.#all.add(flight);
    const ride = flight.board();
    later(flight.fly(takeOff, { later }).finally(() => this.#ended(key, flight)));
    return ride;
  }

  /** Whatever is in the air for a key goes to those aboard and is not kept. */
  forget(key) {
    this.#byKey.delete(key);
    for (const flight of this.#all) if (flight.key === key) flight.landing.shut();
  }

  /** A flight whose request is gone is of no use to anyone. */
  lost(flight) {
    this.#ended(flight.key, flight);
    flight.lost();
  }

  /** Flights whose request was ended by the platform hold nothing any more. */
  #sweep() {
    for (const flight of this.#all) if (flight.isSilent) this.lost(flight);
  }

  #ended(key, flight) {
    this.#all.delete(flight);
    if (this.#byKey.get(key) === flight) this.#byKey.delete(key);
  }
}

function fault(error) {
  console.error("a flight failed", error);
  return new OriginError("the answer could not be fetched because of a fault in Foretold");
}
