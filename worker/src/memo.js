/**
 * From a request's own text to what it was found to ask, for those who repeat themselves.
 *
 * Two levels: a head, once all guards have accepted it, and a body *within that head*.  Everything that the key
 * depends on is in one of the two or fixed for the isolate's life.  Bounded; what the platform adds is left out.
 */

import { textOf } from "./contract/bytes.js";
import { Halves } from "./halves.js";

export const LONGEST_BODY_KEPT = 4096;
// Roughly what is remembered of a head or a body beside its text.
const HEAD_BYTES = 4096;
const NAMED_BYTES = 2048;
// Its sample is drawn anew each time.
const BUCKETS = "helicone-cache-bucket-max-size";

export class Memo {
  #heads;
  #named;
  #number = 0;

  constructor({ headBytes = 2 * 2 ** 20, bodyBytes = 4 * 2 ** 20 } = {}) {
    this.#heads = new Halves(headBytes);
    this.#named = new Halves(bodyBytes);
  }

  get limitBytes() {
    return this.#heads.limit + this.#named.limit;
  }

  get heldBytes() {
    return this.#heads.cost + this.#named.cost;
  }

  /** All that guards and names depend on of a request's head. */
  static place({ method, path, query, headers }) {
    const lines = headers.map(([name, value]) => `${name}:${value}`);
    return `${method} ${path}?${query}\n${lines.join("\n")}`;
  }

  /** The accepted head of a place. */
  head(place) {
    return this.#heads.get(place);
  }

  keepHead(place, head) {
    if (head.headers.some(([name]) => name === BUCKETS)) return;
    this.#number += 1;
    head.number = this.#number;
    head.bytes = HEAD_BYTES + 3 * place.length;
    this.#heads.put(place, head, { cost: head.bytes });
  }

  named(head, body) {
    const place = this.#bodyPlace(head, body);
    return place === null ? undefined : this.#named.get(place);
  }

  keepNamed(head, body, named) {
    const place = this.#bodyPlace(head, body);
    // What is named keeps its head, too.
    if (place !== null) this.#named.put(place, named, { cost: NAMED_BYTES + 2 * place.length + head.bytes });
  }

  /** Null for what is too long, for a head that isn't remembered, and for bytes that are no text. */
  #bodyPlace(head, body) {
    if (head.number === undefined || body.length > LONGEST_BODY_KEPT) return null;
    try {
      return `${head.number}\n${textOf(body)}`;
    } catch {
      return null;
    }
  }
}
