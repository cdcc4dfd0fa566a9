/** The chunks of an answer on its way, read by many at places of their own. */

import { joined } from "./contract/bytes.js";

export class Buffer {
  cameBytes = 0;
  heldBytes = 0;
  #chunks = [];
  #forgotten = 0;

  /** Whether nothing was forgotten. */
  get isWhole() {
    return this.#forgotten === 0;
  }

  /** The place after the last chunk. */
  get end() {
    return this.#forgotten + this.#chunks.length;
  }

  add(chunk) {
    this.#chunks.push(chunk);
    this.cameBytes += chunk.length;
    this.heldBytes += chunk.length;
  }

  /** The chunk at a place, or undefined if it isn't here. */
  at(place) {
    return this.#chunks[place - this.#forgotten];
  }

  /** Whether anything was forgotten of what lies before a place. */
  forgetBefore(place) {
    const gone = this.#chunks.splice(0, Math.max(0, place - this.#forgotten));
    this.#forgotten += gone.length;
    this.heldBytes -= gone.reduce((bytes, chunk) => bytes + chunk.length, 0);
    return gone.length > 0;
  }

  joined() {
    return this.#chunks.length === 1 ? this.#chunks[0] : joined(this.#chunks);
  }
}
