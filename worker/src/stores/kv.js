/** Workers KV: everywhere, eventually (rule R4). */

import { KV_LEAST_S } from "../contract/freshness.js";
import { WritesRefused } from "../errors.js";

// How long a data centre answers from what it read, or didn't find, before it asks the central store again.
const CACHE_TTL_S = 60;
const FOR_THE_DAY = /for the day|\b10048\b/i;
const TOO_MANY = /\b429\b|too many requests/i;
const DAY_MS = 86_400_000;

export class KvStore {
  name = "kv";
  #kv;
  #nowMs;

  constructor(kv, { nowMs }) {
    this.#kv = kv;
    this.#nowMs = nowMs;
  }

  async get(name) {
    const value = await this.#kv.get(name, { type: "arrayBuffer", cacheTtl: CACHE_TTL_S });
    return value === null ? null : new Uint8Array(value);
  }

  /** Throws WritesRefused where KV says that it takes no more, of this key for a second or of any for the day. */
  async put(name, blob, { keepS }) {
    try {
      await this.#kv.put(name, blob, { expirationTtl: Math.max(KV_LEAST_S, keepS) });
    } catch (error) {
      throw refusalIn(error, this.#nowMs()) ?? error;
    }
  }

  async delete(name) {
    await this.#kv.delete(name);
  }
}

/** What KV's error says of its limits, if it is about them. */
export function refusalIn(error, nowMs) {
  if (FOR_THE_DAY.test(error.message)) {
    return new WritesRefused("KV takes no more writes today", { untilMs: nextMidnightMs(nowMs) });
  }
  return TOO_MANY.test(error.message) ? new WritesRefused("KV takes one write a second of a key") : null;
}

/** The next midnight UTC, when the platform's daily limits begin anew. */
export function nextMidnightMs(nowMs) {
  return (Math.floor(nowMs / DAY_MS) + 1) * DAY_MS;
}
