/** Request bodies: no longer than the limit, and together no more than the isolate has room for. */

import { joined } from "../contract/bytes.js";
import { Overloaded, Refused, TooLarge } from "../errors.js";
import { Room } from "../room.js";

const DIGITS = /^[0-9]{1,15}$/;

export class Bodies {
  #limitBytes;

  constructor({ limitBytes, togetherBytes }) {
    this.#limitBytes = limitBytes;
    this.room = new Room(togetherBytes);
  }

  /** Throws TooLarge for what would be too long, before any of it is read. */
  checkAnnounced(length) {
    if (!DIGITS.test(length)) throw new Refused("Content-Length is no number", { code: "bad_framing" });
    if (Number(length) > this.#limitBytes) throw this.#tooLarge();
  }

  /** All of a request's body, which is to be released.  Throws TooLarge or Overloaded. */
  async read(request) {
    if (request.body === null) return new Uint8Array(0);
    const announced = request.headers.get("content-length");
    return announced === null ? this.#readPieces(request) : this.#readAnnounced(request, Number(announced));
  }

  release(body) {
    this.room.take(-body.length);
  }

  /** Of so many bytes, as the platform sees to. */
  async #readAnnounced(request, bytes) {
    this.room.take(bytes);
    try {
      this.#checkRoom();
      const body = new Uint8Array(await request.arrayBuffer());
      this.room.take(body.length - bytes);
      return body;
    } catch (error) {
      this.room.take(-bytes);
      throw error;
    }
  }

  async #readPieces(request) {
    const chunks = [];
    let bytes = 0;
    try {
      for await (const chunk of request.body) {
        bytes += chunk.length;
        this.room.take(chunk.length);
        if (bytes > this.#limitBytes) throw this.#tooLarge();
        this.#checkRoom();
        chunks.push(chunk);
      }
    } catch (error) {
      this.room.take(-bytes);
      throw error;
    }
    return chunks.length === 1 ? chunks[0] : joined(chunks);
  }

  #checkRoom() {
    if (this.room.isOver) throw new Overloaded("too many request bodies are here at once: try again in a moment");
  }

  #tooLarge() {
    return new TooLarge(`the body is longer than ${this.#limitBytes} bytes: the most that the edge takes`);
  }
}
