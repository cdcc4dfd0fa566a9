/** A bounded mapping that forgets its older half at once: no bookkeeping on a look-up. */
export class Halves {
  #halfLimit;
  #young = new Map();
  #old = new Map();
  #youngCost = 0;
  #oldCost = 0;

  /** `limit` bounds the sum of the costs given to `put`. */
  constructor(limit) {
    this.limit = limit;
    this.#halfLimit = Math.floor(limit / 2);
  }

  /** The sum of the costs of all that is held. */
  get cost() {
    return this.#youngCost + this.#oldCost;
  }

  get(key) {
    const found = this.#young.get(key);
    if (found !== undefined) return found.value;
    const older = this.#old.get(key);
    if (older === undefined) return undefined;
    this.put(key, older.value, { cost: older.cost });
    return older.value;
  }

  /** Whether it is held now; what is too long for a half isn't. */
  put(key, value, { cost }) {
    this.delete(key);
    if (cost > this.#halfLimit) return false;
    if (this.#youngCost + cost > this.#halfLimit) {
      [this.#old, this.#young] = [this.#young, new Map()];
      [this.#oldCost, this.#youngCost] = [this.#youngCost, 0];
    }
    this.#young.set(key, { value, cost });
    this.#youngCost += cost;
    return true;
  }

  delete(key) {
    this.#youngCost -= this.#young.get(key)?.cost ?? 0;
    this.#oldCost -= this.#old.get(key)?.cost ?? 0;
    this.#young.delete(key);
    this.#old.delete(key);
  }
}
