/** Records in the isolate's own memory: opened, bounded by bytes, gone with the isolate. */

import { Halves } from "../halves.js";

// Roughly what a record's members take beside its body.
const HELD_BYTES = 2048;

export class MemoryStore {
  name = "memory";
  #held;

  constructor(limitBytes, { largestBytes }) {
    this.limitBytes = limitBytes;
    this.largestBytes = largestBytes;
    this.#held = new Halves(limitBytes);
  }

  get heldBytes() {
    return this.#held.cost;
  }

  get(name) {
    return this.#held.get(name) ?? null;
  }

  /** A longer record isn't held, nor what was held under that name. */
  put(name, held) {
    this.#held.delete(name);
    if (held.body.length > this.largestBytes) return false;
    // Once as recorded and once as the other shape, which is made when it is asked for.
    return this.#held.put(name, held, { cost: HELD_BYTES + 2 * held.body.length });
  }

  delete(name) {
    this.#held.delete(name);
  }
}
