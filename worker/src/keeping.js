/**
 * Records on their way into the tiers: behind the answer, and one writer a key.
 *
 * KV takes one write a second of one key, and refuses a second one: so of two records of a key within a second only the
 * first is written, and what is refused is counted and not tried again, since another edge wrote the same.
 */

import { recordName } from "./contract/key.js";
import { pack } from "./contract/record.js";
import { Halves } from "./halves.js";
import { held } from "./held.js";
import { Room } from "./room.js";

export const LARGEST_IN_KV_BYTES = 2 ** 20;
const BETWEEN_WRITES_MS = 1000;
const WRITTEN_BYTES = 2 ** 20;
// A name and when it was written.
const NAME_BYTES = 400;
// What is on its way into the tiers at once; what would be more stays in memory alone.
const WRITING_BYTES = 12 * 2 ** 20;

export class Keeping {
  kept = 0;
  dropped = 0;
  writing = new Room(WRITING_BYTES);
  #tiers;
  #secret;
  #largestBytes;
  #nowMs;
  #written = new Halves(WRITTEN_BYTES);

  constructor(tiers, { secret, largestBytes, nowMs }) {
    this.#tiers = tiers;
    this.#secret = secret;
    this.#largestBytes = largestBytes;
    this.#nowMs = nowMs;
  }

  get heldBytes() {
    return this.#written.cost;
  }

  get limitBytes() {
    return this.#written.limit;
  }

  /** Puts a record into memory at once, and into the other tiers `later`; null, or why it isn't kept. */
  async keep(record, { later }) {
    let blob;
    try {
      blob = await pack(record, this.#secret);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      return "header-too-long";
    }
    if (!this.takes(blob.length)) return "too-long";
    this.#tiers.keepInMemory(await held(record));
    this.kept += 1;
    later(this.#store(record, blob));
    return null;
  }

  /**
   * Negative records live where they are gone again in seconds: in memory and in the data centre's cache, and never in
   * the place of an answer that is not dead (rule P2).
   */
  async keepShortly(record, { later }) {
    if (await this.#tiers.hasAnswer(record.key, record.namespace)) return;
    const blob = await pack(record, this.#secret);
    this.#tiers.keepInMemory(await held(record));
    const [nearest] = this.#tiers.below;
    if (nearest !== undefined && nearest.name === "cache") {
      later(nearest.put(recordName(record.namespace, record.key), blob, { keepS: record.fresh_s }));
    }
  }

  /** Whether a record of so many bytes may be kept, and some tier takes it. */
  takes(length) {
    return length <= this.largestBytes;
  }

  get largestBytes() {
    return this.#tiers.bodies === null ? Math.min(this.#largestBytes, LARGEST_IN_KV_BYTES) : this.#largestBytes;
  }

  async #store(record, blob) {
    const name = recordName(record.namespace, record.key);
    if (this.writing.heldBytes + blob.length > WRITING_BYTES || !this.#mayWrite(name)) {
      this.dropped += 1;
      return;
    }
    this.writing.take(blob.length);
    try {
      const keepS = this.#tiers.keepS(record);
      await Promise.all(this.#tiers.below.map((tier) => this.#put(tier, { name, record, blob, keepS })));
    } finally {
      this.writing.take(-blob.length);
    }
  }

  async #put(tier, { name, record, blob, keepS }) {
    if (tier.name !== "kv" || blob.length <= LARGEST_IN_KV_BYTES) {
      await tier.put(name, blob, { keepS });
      return;
    }
    // The body first: a pointer to nothing would be a miss that costs two reads.
    if (!(await this.#tiers.bodies.put(name, blob, { keepS }))) return;
    const pointer = await pack({ ...record, kind: "pointer", body: new Uint8Array(0) }, this.#secret);
    await tier.put(name, pointer, { keepS });
  }

  #mayWrite(name) {
    const nowMs = this.#nowMs();
    const writtenMs = this.#written.get(name);
    if (writtenMs !== undefined && nowMs - writtenMs < BETWEEN_WRITES_MS) return false;
    this.#written.put(name, nowMs, { cost: NAME_BYTES });
    return true;
  }
}
