/**
 * The stores in their order: look-ups go down, what is found comes up.
 *
 * Memory, then the data centre's cache, or Workers Cache, then KV, and R2 where KV says so.  Times travel inside the
 * record, so coming up never makes an answer younger.
 */

import { VERDICT, judge, kvExpirationS } from "./contract/freshness.js";
import { recordName } from "./contract/key.js";
import { unpack } from "./contract/record.js";
import { RecordCorrupt } from "./errors.js";
import { held, lifetimesOf } from "./held.js";

export class Tiers {
  memoryCounts = { lookups: 0, hits: 0, misses: 0 };
  corrupt = 0;
  #secret;
  #nowMs;

  /** `below` are the tiers after memory; `bodies`, or null, is the one that pointers point to. */
  constructor(memory, below, { bodies, secret, nowMs }) {
    this.memory = memory;
    this.below = below;
    this.bodies = bodies;
    this.#secret = secret;
    this.#nowMs = nowMs;
  }

  get all() {
    return this.bodies === null ? this.below : [...this.below, this.bodies];
  }

  /** The record in memory, or null; not counted, so that a second look counts once. */
  inMemory(key, namespace) {
    return this.memory.get(recordName(namespace, key));
  }

  /** The record in memory, with the tier's name, or null. */
  lookNear(key, namespace) {
    this.memoryCounts.lookups += 1;
    const found = this.inMemory(key, namespace);
    this.memoryCounts[found === null ? "misses" : "hits"] += 1;
    return found === null ? null : { held: found, tier: this.memory.name };
  }

  /**
   * The first record of the tiers below that `isGood`; else the last that was found whole, or null.
   *
   * `later` takes what may go on after the answer: what comes up from KV is put into the data centre's cache.
   */
  async lookFar(key, namespace, { isGood, later }) {
    const name = recordName(namespace, key);
    let last = null;
    for (const [rank, tier] of this.below.entries()) {
      const blob = await tier.get(name);
      if (blob === null && tier.readsThrough) break;
      const [opened, used, whole] = blob ? await this.#opened(tier, blob, key, namespace) : [null];
      if (opened === null) continue;
      const found = { held: opened, tier: used.name };
      last = found;
      if (!(await isGood(found))) continue;
      this.memory.put(name, opened);
      for (const above of this.below.slice(0, rank)) later(above.put(name, whole, { keepS: this.keepS(opened) }));
      return found;
    }
    return last;
  }

  /** Whether memory or the data centre's cache has an answer of a query that time hasn't killed. */
  async hasAnswer(key, namespace) {
    if (this.#isUsable(this.inMemory(key, namespace))) return true;
    const [nearest] = this.below;
    const blob = nearest?.name === "cache" ? await nearest.get(recordName(namespace, key)) : null;
    return blob ? this.#isUsable(await this.#sound(blob, key, namespace)) : false;
  }

  keepInMemory(record) {
    return this.memory.put(recordName(record.namespace, record.key), record);
  }

  /** How long a store below keeps a record: until it is dead and a minute more. */
  keepS(record) {
    const lifetimes = lifetimesOf(record);
    return kvExpirationS(judge(record.made_ms, lifetimes, this.#nowMs()), lifetimes);
  }

  /** Takes a record out of every tier; throws StoreError. */
  async delete(key, namespace) {
    const name = recordName(namespace, key);
    this.memory.delete(name);
    for (const tier of this.all) await tier.delete(name);
  }

  #isUsable(record) {
    if (record === null || record.kind === "negative") return false;
    return judge(record.made_ms, lifetimesOf(record), this.#nowMs()).verdict !== VERDICT.DEAD;
  }

  /** The record in a blob or behind its pointer, the tier it came from and its bytes; [null] if there is none. */
  async #opened(tier, blob, key, namespace) {
    const record = await this.#sound(blob, key, namespace);
    if (record === null) return [null];
    if (record.kind !== "pointer") return [await held(record), tier, blob];
    const body = this.bodies === null ? null : await this.bodies.get(recordName(namespace, key));
    const whole = !body ? null : await this.#sound(body, key, namespace);
    return whole === null || whole.kind === "pointer" ? [null] : [await held(whole), this.bodies, body];
  }

  async #sound(blob, key, namespace) {
    try {
      return await unpack(blob, this.#secret, { key, namespace });
    } catch (error) {
      if (!(error instanceof RecordCorrupt)) throw error;
      this.corrupt += 1;
      return null;
    }
  }
}
