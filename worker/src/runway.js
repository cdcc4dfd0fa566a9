/** Where flights land: their answers become records and are kept. */

import { isAlive } from "./contract/generations.js";
import { admits, negativeOf, recordOf } from "./landing.js";

/** The landing of one flight. */
export class Runway {
  #departure;
  #keeping;
  #generations;
  #nowMs;
  #isShut = false;
  #isSuperseded = false;

  constructor(departure, keeping, { generations, nowMs }) {
    this.#departure = departure;
    this.#keeping = keeping;
    this.#generations = generations;
    this.#nowMs = nowMs;
  }

  get largestBytes() {
    return this.#keeping.largestBytes;
  }

  /** Whether what lands may still be kept; false once something it belongs to is known to be purged since take-off. */
  isOpen() {
    if (this.#isShut) return false;
    const { tags } = this.#departure;
    const current = this.#generations.now(Object.keys(tags));
    return current === null || isAlive(tags, current);
  }

  /** From now on nothing that lands is kept. */
  shut() {
    this.#isShut = true;
  }

  /** From now on nothing that lands is kept: a flight of its key that began later has landed. */
  supersede() {
    this.#isShut = this.#isSuperseded = true;
  }

  admits(incoming) {
    if (incoming.length !== null && !this.#keeping.takes(incoming.length)) return false;
    return this.isOpen() && admits(this.#departure, incoming, { nowMs: this.#nowMs() });
  }

  /** Keeps an answer that ended cleanly; null if it was kept, else why not. */
  async land(incoming, body, { later }) {
    const nowMs = this.#nowMs();
    const [record, why] = recordOf(this.#departure, incoming, { body, nowMs });
    const current = await this.#generations.of(Object.keys(this.#departure.tags), { later });
    const isStillGood = !this.#isShut && isAlive(this.#departure.tags, current);
    const gone = this.#isSuperseded ? "superseded" : "purged";
    if (record !== null) return isStillGood ? this.#keeping.keep(record, { later }) : gone;
    const negative = negativeOf(this.#departure, incoming, { body, nowMs });
    if (negative !== null && isStillGood) await this.#keeping.keepShortly(negative, { later });
    return why;
  }
}
