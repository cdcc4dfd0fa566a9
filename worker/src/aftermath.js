/** What ended flights leave behind for later callers of their keys, for moments (rule L1). */

import { LATER } from "./contract/endings.js";

// A longer answer is not told again: the next caller asks anew.
export const LONGEST_TOLD_BYTES = 256 * 1024;
// What a flight takes beside its bytes, roughly.
const MARK_BYTES = 8192;
const LIMIT_BYTES = 4 * 2 ** 20;

/** Bounded by bytes: the oldest are forgotten first, which costs a flight more and nothing else. */
export class Aftermath {
  heldBytes = 0;
  #nowMs;
  #marks = new Map();

  constructor({ nowMs, limitBytes = LIMIT_BYTES }) {
    this.#nowMs = nowMs;
    this.limitBytes = limitBytes;
  }

  get size() {
    return this.#marks.size;
  }

  /** Takes the place of what an earlier flight left; `isAlive` says whether no purge came since it began. */
  leave(place, ending, flight, { cameBytes, ownBytes, isAlive }) {
    this.#drop(place);
    if (ending === null || (ending.later !== LATER.SAME && ending.later !== LATER.ALONE)) return;
    if (ending.later === LATER.SAME && cameBytes > LONGEST_TOLD_BYTES) return;
    const untilMs = this.#nowMs() + ending.laterS * 1000;
    const told = ending.later === LATER.SAME ? flight : null;
    // The body, and perhaps the shape that a later caller wants of it.
    const cost = MARK_BYTES + ownBytes + (told === null ? 0 : 2 * cameBytes);
    this.#marks.set(place, { flight: told, untilMs, isAlive, cost });
    this.heldBytes += cost;
    this.#forgetTheOldest();
  }

  /** What was left there: its `flight` is the one whose outcome is told again, null where later callers fly alone. */
  of(place) {
    const mark = this.#marks.get(place);
    if (mark === undefined) return null;
    if (this.#nowMs() < mark.untilMs && mark.isAlive()) return mark;
    this.#drop(place);
    return null;
  }

  forget(place) {
    this.#drop(place);
  }

  #forgetTheOldest() {
    const nowMs = this.#nowMs();
    for (const [place, mark] of this.#marks) {
      if (mark.untilMs > nowMs && this.heldBytes <= this.limitBytes) return;
      this.#drop(place);
    }
  }

  #drop(place) {
    this.heldBytes -= this.#marks.get(place)?.cost ?? 0;
    this.#marks.delete(place);
  }
}
