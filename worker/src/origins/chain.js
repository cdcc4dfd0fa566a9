/** The origins of a route in their order: retries at each, then the next (rule U1). */

import { FAILURE, MAX_RETRIES, mayFallBack, retryAfterS } from "../contract/manners.js";
import { pause } from "../deadlines.js";
import { OriginCut, OriginError, OriginTimeout, OriginUnreachable, Refused } from "../errors.js";
import { byName } from "../fields.js";

export class Chain {
  #origins;
  #retries;

  constructor(origins, { retries = MAX_RETRIES } = {}) {
    this.name = origins[0].name;
    this.limitsAnswers = origins[0].limitsAnswers;
    this.#origins = origins;
    this.#retries = retries;
  }

  /**
   * The first good answer, its first bytes already here; where all fail, what the first origin said.
   *
   * What passes may have side effects, known or hidden in a body without a key: it is asked once (rules K12, U1).
   */
  async fetch(asked, forwarded, { signal }) {
    const once = asked.passes !== null;
    const first = await this.#ask(this.#origins[0], asked, { forwarded, signal, once });
    if (shouldFallBack(first, once)) {
      // A caller's credential is for the route's own origin and no other; the others use what the settings give.
      const others = { ...forwarded, credential: null, mayUseOwn: true, revision: null };
      for (const origin of this.#origins.slice(1)) {
        const got = await this.#ask(origin, asked, { forwarded: others, signal, once });
        if (got.begun && got.begun.status < 400) {
          first.begun?.close();
          got.begun.isFallback = true;
          return got.begun;
        }
        got.begun?.close();
      }
    }
    if (first.error) throw first.error;
    return first.begun;
  }

  async #ask(origin, asked, { forwarded, signal, once }) {
    for (let retriesDone = 0; ; retriesDone++) {
      const got = await begin(origin, asked, { forwarded, signal });
      const waitS = signal.aborted ? null : this.#waitS(got, retriesDone, once);
      if (waitS === null) return got;
      got.begun?.close();
      await pause(waitS * 1000);
    }
  }

  #waitS({ begun, error }, retriesDone, once) {
    if (retriesDone >= this.#retries) return null;
    const failure = error ? failureOf(error) : null;
    if (error && failure === null) return null;
    const status = begun?.status ?? null;
    const retryAfter = begun ? (byName(begun.headers).get("retry-after") ?? null) : null;
    return retryAfterS({ failure, status, retryAfter, sentAny: false, retriesDone, chance: Math.random(), once });
  }
}

/** An answer whose first bytes are here: what fails before them could still be asked again. */
class Begun {
  isFallback = false;
  #incoming;
  #first;
  #rest;

  constructor(incoming, first, rest) {
    this.status = incoming.status;
    this.headers = incoming.headers;
    this.length = incoming.length;
    this.#incoming = incoming;
    this.#first = first;
    this.#rest = rest;
  }

  get isProven() {
    return this.#incoming.isProven;
  }

  get whyNot() {
    return this.#incoming.whyNot;
  }

  async *chunks() {
    if (this.#first.done) return;
    yield this.#first.value;
    yield* this.#rest;
  }

  close() {
    this.#incoming.close();
  }
}

/** `begun` or `error`, whichever it was. */
async function begin(origin, asked, { forwarded, signal }) {
  let incoming = null;
  try {
    incoming = await origin.fetch(asked, forwarded, { signal });
    const rest = incoming.chunks();
    return { begun: new Begun(incoming, await rest.next(), rest) };
  } catch (error) {
    incoming?.close();
    if (error instanceof OriginError || error instanceof Refused) return { error };
    throw error;
  }
}

function failureOf(error) {
  if (error instanceof OriginUnreachable) return FAILURE.CONNECT;
  if (error instanceof OriginTimeout) return FAILURE.TIMEOUT;
  if (error instanceof OriginCut) return FAILURE.CUT;
  return null;
}

function shouldFallBack({ begun, error }, once) {
  if (begun) return mayFallBack({ status: begun.status, once });
  return error instanceof OriginError && !once;
}
