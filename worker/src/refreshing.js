/** Who fetches a new answer behind a stale one: the first of a data centre in half a minute. */

import { utf8 } from "./contract/bytes.js";
import { recordName } from "./contract/key.js";
import { Halves } from "./halves.js";

export const REFRESHING_S = 30;
const KNOWN = 10_000;

export class Refreshing {
  #cache;
  #nowMs;
  #taken = new Halves(KNOWN);

  /** `cache` is the tier of the data centre's cache, or null where there is none. */
  constructor(cache, { nowMs }) {
    this.#cache = cache;
    this.#nowMs = nowMs;
  }

  /** Whether it is ours to fetch.  Two who ask in the same moment may both be told so: that costs one call. */
  async take(namespace, key) {
    const name = `${recordName(namespace, key)}/refreshing`;
    const takenMs = this.#taken.get(name);
    if (takenMs !== undefined && this.#nowMs() - takenMs < REFRESHING_S * 1000) return false;
    this.#taken.put(name, this.#nowMs(), { cost: 1 });
    if (this.#cache === null) return true;
    if (await this.#cache.get(name)) return false;
    await this.#cache.put(name, utf8("taken"), { keepS: REFRESHING_S });
    return true;
  }
}
