/**
 * Server-sent events: a transcript and its parts (WHATWG HTML section 9.2.6).
 *
 * A transcript is never re-framed: every event keeps its own bytes.  An event is an object with `raw`, its bytes with
 * the blank line that ends it, `data`, its data lines joined or null if it has none, and `name`.
 */

import { textOf } from "./bytes.js";

export const DONE = "[DONE]";
export const LONGEST_EVENT_BYTES = 8 * 2 ** 20;

const LINE = /\r\n|\n|\r/;
const [LF, CR] = [0x0a, 0x0d];

/**
 * The whole events of a transcript, and what follows the last of them.
 *
 * Throws TypeError if an event isn't UTF-8.
 */
export function split(transcript) {
  const [ends, at] = eventEnds(transcript, 0, transcript.length);
  const raws = ends.map((end, i) => transcript.subarray(i === 0 ? 0 : ends[i - 1], end));
  return [raws.map(eventOf), transcript.subarray(at)];
}

export function eventOf(raw) {
  const data = [];
  let name = "";
  for (const line of textOf(raw).replace(/^\ufeff/, "").split(LINE)) {
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") data.push(value);
    else if (field === "event") name = value;
  }
  return { raw, data: data.length > 0 ? data.join("\n") : null, name };
}

/** Whether a transcript of chat or text completions ends with its `[DONE]`, once and last (rule P1). */
export function endsCleanly(events, rest) {
  const told = events.map((event) => event.data).filter((data) => data !== null);
  const isBlank = rest.every((byte) => byte === 0x20 || (byte >= 0x09 && byte <= CR));
  return isBlank && told.at(-1) === DONE && told.indexOf(DONE) === told.length - 1;
}

/**
 * Cuts a stream of chunks into whole events as they come, at a cost linear in the bytes.
 *
 * Once an event is longer than `longestBytes` it `hasGivenUp`: what was held back goes out, and from then on every
 * chunk as it comes (rule R3).
 */
export class Splitter {
  hasGivenUp = false;
  #held = new Uint8Array(1024);
  #length = 0;
  #searched = 0;
  #longestBytes;

  constructor({ longestBytes = LONGEST_EVENT_BYTES } = {}) {
    this.#longestBytes = longestBytes;
  }

  /** The bytes of each event that this chunk completes. */
  feed(chunk) {
    if (this.hasGivenUp) return chunk.length > 0 ? [chunk] : [];
    this.#hold(chunk);
    const held = this.#held.subarray(0, this.#length);
    // A CR at the very end may be half of a CR LF: it is looked at again with the next chunk.
    const seen = held.at(-1) === CR ? held.length - 1 : held.length;
    const [ends, at] = eventEnds(held, this.#searched, seen);
    const found = ends.map((end, i) => held.slice(i === 0 ? 0 : ends[i - 1], end));
    if (at > 0) this.#held.copyWithin(0, at, this.#length);
    this.#length -= at;
    // A blank line is at most four bytes, so its first three may be here already.
    this.#searched = Math.max(0, seen - at - 3);
    if (this.#length > this.#longestBytes) {
      this.hasGivenUp = true;
      found.push(this.rest());
      this.#held = new Uint8Array(0);
    }
    return found;
  }

  /** What came after the last whole event. */
  rest() {
    const held = this.#held.slice(0, this.#length);
    this.#length = 0;
    this.#searched = 0;
    return held;
  }

  #hold(chunk) {
    const length = this.#length + chunk.length;
    if (length > this.#held.length) {
      const roomier = new Uint8Array(Math.max(length, 2 * this.#held.length));
      roomier.set(this.#held.subarray(0, this.#length));
      this.#held = roomier;
    }
    this.#held.set(chunk, this.#length);
    this.#length = length;
  }
}

/** Where each event ends between two places, and the last of these ends, or 0. */
function eventEnds(bytes, from, to) {
  const ends = [];
  let at = from;
  while (at < to) {
    const line = lineEnd(bytes, at, to);
    const blank = line === 0 ? 0 : lineEnd(bytes, at + line, to);
    if (blank > 0) ends.push(at + line + blank);
    at += Math.max(1, line + blank);
  }
  return [ends, ends.at(-1) ?? 0];
}

/** How many bytes the end of line here has: 2 for CR LF, 0 if there is none. */
function lineEnd(bytes, at, to) {
  if (at >= to) return 0;
  if (bytes[at] === CR) return at + 1 < to && bytes[at + 1] === LF ? 2 : 1;
  return bytes[at] === LF ? 1 : 0;
}
