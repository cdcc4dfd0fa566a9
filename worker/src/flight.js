/**
 * One run of an origin for a key, shared by all who ask this isolate meanwhile.
 *
 * The flight runs in the request that started it, which goes on for at most 30 s after its own caller has left; so it
 * beats once a second, and whoever rides along and hears nothing for 3 s knows that it is lost (as between processes,
 * rule L2).  Riders share bytes, never the platform's streams, which belong to one request.  What is landed is landed
 * before any rider sees the end.  An answer too long to be shared goes on for those aboard, at the pace of the slowest.
 */

import { Buffer } from "./buffer.js";
import { ending } from "./contract/endings.js";
import { ForetoldError, OriginCut, OriginError, Refused } from "./errors.js";

export const BEAT_MS = 1000;
export const SILENCE_MS = 3000;
export const AHEAD_BYTES = 256 * 1024;
export const LONGEST_WHOLE_BYTES = 8 * 2 ** 20;
export const PATIENCE_MS = 30_000;
// Not kept for a reason of ours: it says nothing of what the origin will answer next.
const OURS = "fault";

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
  #isLost = false;
  #landed;
  #leaves;
  #room;
  #takeOff = null;

  /**
   * `room` is what all flights of the isolate may hold together.
   *
   * `landed` is told at once when its answer is kept; `leaves` when it has ended, before any rider sees that.
   */
  constructor(key, { landing, finishesAlone, tellsUsage, room, landed = () => {}, leaves = () => {} }) {
    this.#landed = landed;
    this.#leaves = leaves;
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

  /** Whether nothing of what has come was forgotten. */
  get hasAll() {
    return this.#buffer.isWhole;
  }

  get landedWhole() {
    return this.ended && this.error === null && this.hasAll;
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

  get cameBytes() {
    return this.#buffer.cameBytes;
  }

  get headBytes() {
    return (this.incoming?.headers ?? []).reduce((sum, [name, value]) => sum + name.length + value.length, 0);
  }

  /** How it ended; null where that says nothing of the origin: given up, lost, refused, or purged meanwhile. */
  get ending() {
    if (this.#givenUp || this.#isLost || this.error instanceof Refused || !this.landing.isOpen()) return null;
    if (this.incoming === null) {
      const lost = this.error instanceof OriginCut;
      return ending({ status: lost ? 502 : null, clean: false, storable: false, sentAny: false, retried: true });
    }
    return ending({
      status: this.incoming.status,
      clean: this.error === null,
      storable: this.whyNotKept === null || this.whyNotKept === OURS,
      sentAny: true,
      retried: true,
      fallback: this.incoming.isFallback,
    });
  }

  /** An error goes to its end though nobody waits, so that it can be told to the next. */
  get #isAnError() {
    return this.incoming !== null && (this.incoming.status === 429 || this.incoming.status >= 500);
  }

  board({ isEcho = false } = {}) {
    const ride = new Ride(this, { isEcho });
    this.riders.add(ride);
    return ride;
  }

  left(ride) {
    this.riders.delete(ride);
    this.movedOn();
    if (this.riders.size === 0) this.#emptied?.();
    if (this.riders.size === 0 && !this.ended && !this.#finishesAlone && !this.#isAnError) this.#giveUp();
  }

  chunk(place) {
    return this.#buffer.at(place);
  }

  /** A rider read a chunk or left: an overlong flight forgets what all have read. */
  movedOn() {
    // What ended whole stays whole, for it may be told again.
    if (this.isWhole || (this.ended && this.#buffer.isWhole)) return;
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
   * `takeOff` asks the origin and is told by a signal when nobody waits any more.  It is let go of once there is an
   * answer, and with it the query's body.
   */
  fly(takeOff, { later }) {
    this.#takeOff = takeOff;
    return this.#fly(later);
  }

  async #fly(later) {
    const beating = setInterval(() => this.#beat(), BEAT_MS);
    await this.#run(later);
    if (this.riders.size > 0) await new Promise((emptied) => (this.#emptied = emptied));
    clearInterval(beating);
    this.#release();
  }

  async #run(later) {
    try {
      this.incoming = await this.#takeOff(this.#abort.signal);
      this.#takeOff = null;
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
      if (!this.#isLost) this.#leaves();
      this.ended = true;
      this.#tell();
      this.incoming?.close();
    }
  }

  /** Its request is gone, and nobody will end it. */
  lost() {
    this.#isLost = true;
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
      const whyNot = await this.landing.land(this.incoming, this.body, { later });
      if (whyNot === null) this.#landed();
      return whyNot;
    } catch (error) {
      console.error("an answer could not be kept", error);
      return OURS;
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

  /** An echo is a seat in a flight that had ended before. */
  constructor(flight, { isEcho }) {
    this.flight = flight;
    this.isEcho = isEcho;
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
      // Again and again: woken from another request, this one goes on a moment later, and the platform ends a request
      // that waits for nothing of its own in that moment.
      timer = setInterval(resolve, BEAT_MS);
    });
    clearInterval(timer);
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

function fault(error) {
  console.error("a flight failed", error);
  return new OriginError("the answer could not be fetched because of a fault in Foretold");
}
