/**
 * A line a query, many lines an object in R2: an object a query would cost more than all the rest.
 *
 * Lines wait in memory until there are MOST of them, or at least LEAST and the oldest waits for ten seconds.  What an
 * isolate holds when it ends is lost: counts that miss nothing are those of metrics.js.  No text of anybody's stands in
 * a line, and no credential.
 */

import { hex } from "../contract/bytes.js";

export const LEAST_LINES = 25;
export const MOST_LINES = 1000;
export const OLDEST_MS = 10_000;
const MOST_WAITING = 4000;
const LONGEST_MODEL = 200;

export class Logs {
  written = 0;
  objects = 0;
  lost = 0;
  #bucket;
  #nowMs;
  #lines = [];
  #sinceMs = 0;
  #isWriting = false;

  constructor(bucket, { nowMs }) {
    this.#bucket = bucket;
    this.#nowMs = nowMs;
  }

  get waiting() {
    return this.#lines.length;
  }

  /** `later` takes the writing of an object, when it is time for one. */
  observe(outcome, { later }) {
    const nowMs = this.#nowMs();
    if (this.#lines.length === 0) this.#sinceMs = nowMs;
    if (this.#lines.length < MOST_WAITING) this.#lines.push(lineOf(outcome, nowMs));
    else this.lost += 1;
    const isOld = this.#lines.length >= LEAST_LINES && nowMs - this.#sinceMs >= OLDEST_MS;
    if (!this.#isWriting && (isOld || this.#lines.length >= MOST_LINES)) later(this.#write(nowMs));
  }

  /** Never throws: lines that could not be written are counted. */
  async #write(nowMs) {
    this.#isWriting = true;
    const lines = this.#lines.splice(0);
    try {
      await this.#bucket.put(nameOf(nowMs), lines.join(""), { httpMetadata: { contentType: "application/x-ndjson" } });
      this.objects += 1;
      this.written += lines.length;
    } catch {
      this.lost += lines.length;
    } finally {
      this.#isWriting = false;
    }
  }
}

function lineOf({ how, ended, tier, operation, model, route, status, detail, stored, ...counts }, nowMs) {
  const { tookMs, originMs, bodyBytes } = counts;
  const said = { at: new Date(nowMs).toISOString(), how, ended, tier, operation, model: model.slice(0, LONGEST_MODEL) };
  const costs = { took_ms: tookMs, origin_ms: originMs, body_bytes: bodyBytes };
  return `${JSON.stringify({ ...said, route, status, detail, stored, ...costs })}\n`;
}

/** By day, then time, and never the same from two isolates. */
function nameOf(nowMs) {
  const [day, time] = new Date(nowMs).toISOString().slice(0, 23).split("T");
  return `foretold/logs/${day}/${time.replaceAll(":", "")}-${hex(crypto.getRandomValues(new Uint8Array(6)))}.ndjson`;
}
