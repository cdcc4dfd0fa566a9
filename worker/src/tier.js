/** One store with a deadline: whatever it does, it is a hit or a miss, counted, never an error and never a hang. */

import { within } from "./deadlines.js";
import { StoreError, WritesRefused } from "./errors.js";

export const TIER_DEADLINE_MS = 250;
// A write runs behind the answer; only a store that never answers is given up.
const WRITE_DEADLINE_MS = 10_000;

export class Tier {
  counts = { lookups: 0, hits: 0, misses: 0, errors: 0, timeouts: 0, puts: 0, put_errors: 0, refused: 0, dropped: 0 };
  #readOnlyUntilMs = 0;
  #nowMs;

  constructor(store, { nowMs, deadlineMs = TIER_DEADLINE_MS }) {
    this.store = store;
    this.name = store.name;
    this.deadlineMs = deadlineMs;
    this.#nowMs = nowMs;
  }

  /** Until when the store takes no writes, in Unix milliseconds; 0 if it takes them. */
  get readOnlyUntilMs() {
    return this.#readOnlyUntilMs > this.#nowMs() ? this.#readOnlyUntilMs : 0;
  }

  /** Whether what it hasn't is not in the tier below either. */
  get readsThrough() {
    return this.store.readsThrough ?? false;
  }

  /** The bytes under a name; null if they are not there, undefined if it failed or was too slow. */
  async get(name) {
    this.counts.lookups += 1;
    try {
      const blob = await within(this.store.get(name), this.deadlineMs, late);
      this.counts[blob === null ? "misses" : "hits"] += 1;
      return blob;
    } catch (error) {
      this.counts[error instanceof Late ? "timeouts" : "errors"] += 1;
      return undefined;
    }
  }

  /** Whether the bytes were kept. */
  async put(name, blob, { keepS }) {
    if (this.readOnlyUntilMs > 0) {
      this.counts.dropped += 1;
      return false;
    }
    try {
      await within(this.store.put(name, blob, { keepS }), WRITE_DEADLINE_MS, late);
      this.counts.puts += 1;
      return true;
    } catch (error) {
      this.#failed(error);
      return false;
    }
  }

  /** Throws StoreError if it could not be taken out. */
  async delete(name) {
    await within(this.store.delete(name), WRITE_DEADLINE_MS, late);
  }

  #failed(error) {
    if (error instanceof WritesRefused) {
      this.counts.refused += 1;
      if (error.untilMs !== null) this.#readOnlyUntilMs = error.untilMs;
    } else {
      this.counts.put_errors += 1;
    }
  }
}

class Late extends StoreError {}

function late() {
  return new Late("the store did not answer in time");
}
