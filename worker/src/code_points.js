/**
 * Text on its way is cut between code points: no chunk of ours begins or ends inside one.
 *
 * Upstreams and networks cut where they like, also inside a Vietnamese letter or an emoji, and many a client decodes
 * chunk by chunk.  The bytes stay the origin's; only where they are cut may change.
 */

import { joined } from "./contract/bytes.js";

const LONGEST = 4;
const NOTHING = new Uint8Array(0);

/** Cuts UTF-8 anew as it comes, holding back at most three bytes; what isn't UTF-8 goes through. */
export class CodePoints {
  #held = NOTHING;

  /** What can go out now: all that has come, but for the beginning of a code point at its end. */
  feed(chunk) {
    const text = this.#held.length > 0 ? joined([this.#held, chunk]) : chunk;
    const end = text.length - begunAtTheEnd(text);
    this.#held = end < text.length ? text.slice(end) : NOTHING;
    return end < text.length ? text.subarray(0, end) : text;
  }

  /** What is held at the end of a text that itself ends inside a code point. */
  rest() {
    const held = this.#held;
    this.#held = NOTHING;
    return held;
  }
}

/** The same text in chunks of whole code points. */
export async function* cutAnew(chunks) {
  const points = new CodePoints();
  for await (const chunk of chunks) {
    const told = points.feed(chunk);
    if (told.length > 0) yield told;
  }
  const rest = points.rest();
  if (rest.length > 0) yield rest;
}

/** Whether a body of this type is text in UTF-8, as far as its type tells. */
export function isUtf8(contentType) {
  const [kind, ...parameters] = contentType.toLowerCase().split(";").map((part) => part.trim());
  const isText = kind.startsWith("text/") || kind === "application/json";
  if (!isText && !kind.endsWith("+json") && !kind.endsWith("/x-ndjson")) return false;
  const charset = parameters.find((parameter) => parameter.startsWith("charset="))?.slice("charset=".length) ?? "";
  return ["", "utf-8", "utf8"].includes(charset.replace(/^[ "]+|[ "]+$/g, ""));
}

/** Bytes of the last code point, if not all of it is here; 0 otherwise, and for what is no beginning of one. */
function begunAtTheEnd(text) {
  for (let back = 1; back <= Math.min(LONGEST - 1, text.length); back++) {
    const byte = text[text.length - back];
    if ((byte & 0xc0) === 0x80) continue;
    return back < lengthFrom(byte) ? back : 0;
  }
  return 0;
}

function lengthFrom(byte) {
  if (byte >= 0xc2 && byte <= 0xdf) return 2;
  if (byte >= 0xe0 && byte <= 0xef) return 3;
  return byte >= 0xf0 && byte <= 0xf4 ? 4 : 1;
}
