/**
 * The generations of tags, read from KV (rule G1).
 *
 * What was read is believed for 30 s.  Then it is read again; while it can't be, it is believed until it is 90 s old,
 * and after that every record counts as dead: better none than one that was purged.
 */

import { hex } from "./contract/bytes.js";
import { EVERYTHING, NEVER_PURGED, generationName } from "./contract/generations.js";
import { pause, within } from "./deadlines.js";
import { StoreError } from "./errors.js";
import { Halves } from "./halves.js";
import { refusalIn } from "./stores/kv.js";
import { TIER_DEADLINE_MS } from "./tier.js";

export const BELIEVED_MS = 30_000;
export const AT_MOST_MS = 90_000;
// The least that KV allows.
const CACHE_TTL_S = 30;
// Roughly what is remembered of a tag beside its text.
const TAG_BYTES = 256;
const KNOWN_BYTES = 2 * 2 ** 20;
const BETWEEN_WRITES_MS = 1100;

export class KvGenerations {
  reads = 0;
  errors = 0;
  #kv;
  #nowMs;
  #deadlineMs;
  #known = new Halves(KNOWN_BYTES);
  #names = new Halves(KNOWN_BYTES);

  constructor(kv, { nowMs, deadlineMs = TIER_DEADLINE_MS }) {
    this.#kv = kv;
    this.#nowMs = nowMs;
    this.#deadlineMs = deadlineMs;
  }

  get heldBytes() {
    return this.#known.cost + this.#names.cost;
  }

  get limitBytes() {
    return this.#known.limit + this.#names.limit;
  }

  /** The generations of these tags, at once, if all are believed; else null. */
  now(tags) {
    const nowMs = this.#nowMs();
    return tags.every((tag) => this.#isYounger(tag, BELIEVED_MS, nowMs)) ? this.#table(tags) : null;
  }

  /**
   * The generations of these tags; without `*` if they can't be known, which kills all.
   *
   * `later` takes the writing of a first generation of everything.
   */
  async of(tags, { later }) {
    const believed = this.now(tags);
    if (believed !== null) return believed;
    try {
      await this.#read(tags, later);
    } catch {
      this.errors += 1;
      const nowMs = this.#nowMs();
      if (!tags.every((tag) => this.#isYounger(tag, AT_MOST_MS, nowMs))) return {};
    }
    return this.#table(tags);
  }

  /** A new random value for each tag, in KV when this returns; throws StoreError. */
  async renew(tags) {
    for (const tag of tags) {
      const value = random();
      await this.#renewed(await this.#nameOf(tag), value);
      this.#remember(tag, { value, readMs: this.#nowMs() });
    }
  }

  /** A second purge of a tag within a second waits that KV takes it. */
  async #renewed(name, value) {
    for (let tries = 1; ; tries++) {
      try {
        return await this.#kv.put(name, value);
      } catch (error) {
        const refusal = refusalIn(error, this.#nowMs());
        if (tries > 1 || refusal === null || refusal.untilMs !== null) {
          throw new StoreError(`a purge could not be written to KV: ${refusal?.message ?? error.message}`);
        }
      }
      await pause(BETWEEN_WRITES_MS);
    }
  }

  async #read(tags, later) {
    this.reads += 1;
    const names = await Promise.all(tags.map((tag) => this.#nameOf(tag)));
    const asked = this.#kv.get([...new Set(names)], { type: "text", cacheTtl: CACHE_TTL_S });
    const found = await within(asked, this.#deadlineMs, () => new StoreError("KV did not answer in time"));
    const readMs = this.#nowMs();
    for (const [at, tag] of tags.entries()) {
      const value = found.get(names[at]) ?? NEVER_PURGED;
      if (tag === EVERYTHING && value === NEVER_PURGED) this.#begin(readMs, later);
      else this.#remember(tag, { value, readMs });
    }
  }

  /**
   * A first generation of everything.
   *
   * A data centre remembers for a minute that it found none, so what we wrote ourselves is believed meanwhile.
   */
  #begin(nowMs, later) {
    const begun = this.#known.get(EVERYTHING);
    if (begun !== undefined && begun.value !== NEVER_PURGED && nowMs - (begun.begunMs ?? 0) < AT_MOST_MS) {
      this.#remember(EVERYTHING, { ...begun, readMs: nowMs });
      return;
    }
    const value = random();
    this.#remember(EVERYTHING, { value, readMs: nowMs, begunMs: nowMs });
    later(this.#write(value));
  }

  async #write(value) {
    try {
      await this.#kv.put(await this.#nameOf(EVERYTHING), value);
    } catch {
      // Somebody else began in the same moment, or nobody can: read again before anything is kept under ours.
      this.#known.delete(EVERYTHING);
      this.errors += 1;
    }
  }

  #remember(tag, known) {
    this.#known.put(tag, known, { cost: TAG_BYTES + 2 * tag.length });
  }

  #table(tags) {
    const known = tags.map((tag) => [tag, this.#known.get(tag)?.value ?? NEVER_PURGED]);
    return Object.fromEntries(known.filter(([, value]) => value !== NEVER_PURGED));
  }

  #isYounger(tag, ms, nowMs) {
    const known = this.#known.get(tag);
    return known !== undefined && nowMs - known.readMs < ms;
  }

  async #nameOf(tag) {
    let name = this.#names.get(tag);
    if (name === undefined) {
      name = await generationName(tag);
      this.#names.put(tag, name, { cost: TAG_BYTES + 2 * tag.length });
    }
    return name;
  }
}

function random() {
  return hex(crypto.getRandomValues(new Uint8Array(8)));
}
