/**
 * The models that a node runs itself, and their revisions (rule K9).
 *
 * The node's `GET /v1/models` tells them.  What was read is believed for 30 s; from 20 s on it is read again behind an
 * answer.  While the node can't be asked, what was known goes on: a node that is down has no other answers.  For isolates
 * that begin then there is a sealed copy in KV.
 */

import { digest, hex, hmac, textOf, utf8 } from "./contract/bytes.js";
import { isObject } from "./contract/canonical.js";
import { within } from "./deadlines.js";
import { ForetoldError, OriginError, StoreError } from "./errors.js";
import { collected } from "./flight.js";
import { TIER_DEADLINE_MS } from "./tier.js";

export const BELIEVED_MS = 30_000;
const AGAIN_MS = 20_000;
const REST_MS = 5000;
const NODE_MS = 1000;
const CACHE_TTL_S = 30;
const COPY_S = 2_592_000;
const COPY_AGAIN_MS = 86_400_000;
const ASKED = { method: "GET", path: "/v1/models", query: "", body: new Uint8Array(0) };
const BESIDE = { headers: [], credential: null, mayUseOwn: true };

export class Catalogue {
  reads = 0;
  errors = 0;
  #node;
  #kv;
  #secret;
  #nowMs;
  #revisions = null;
  #readMs = 0;
  #beganMs = -Infinity;
  #failedMs = -Infinity;
  #copiedMs = 0;
  #last = null;

  /** `node` is the upstream that is a node. */
  constructor(node, { kv, secret, nowMs }) {
    this.#node = node;
    this.#kv = kv;
    this.#secret = secret;
    this.#nowMs = nowMs;
  }

  /** The revision of a model that the node runs, at once; null if it isn't known now. */
  now(model) {
    const isBelieved = this.#revisions !== null && this.#nowMs() - this.#readMs < BELIEVED_MS;
    return isBelieved ? (this.#revisions.get(model) ?? null) : null;
  }

  /** The revision of a model; null for one that the node doesn't run itself.  `later` takes what is read behind. */
  async revisionOf(model, { later }) {
    const ageMs = this.#nowMs() - this.#readMs;
    if (this.#revisions === null || ageMs >= BELIEVED_MS) await this.#read(later);
    else if (ageMs >= AGAIN_MS && this.#nowMs() - this.#beganMs >= NODE_MS) later(this.#read(later));
    return this.#revisions?.get(model) ?? null;
  }

  /** Never throws: what can't be read is counted, and what was known stays. */
  async #read(later) {
    const told = await this.#asked();
    if (told !== null) {
      this.#believe(told);
      later(this.#copy(told));
    } else if (this.#revisions === null) {
      this.#believe(await this.#copied());
    } else {
      this.#readMs = this.#nowMs() - AGAIN_MS;
    }
  }

  /** What the node tells; null if it can't be asked, or just couldn't. */
  async #asked() {
    if (this.#nowMs() - this.#failedMs < REST_MS) return null;
    this.#beganMs = this.#nowMs();
    this.reads += 1;
    try {
      return await within(this.#told(), NODE_MS, () => new OriginError("the node did not answer in time"));
    } catch (error) {
      if (!(error instanceof ForetoldError)) throw error;
      this.errors += 1;
      this.#failedMs = this.#nowMs();
      return null;
    }
  }

  #believe(revisions) {
    this.#revisions = revisions;
    this.#readMs = this.#nowMs();
  }

  /** What the node tells now.  Throws OriginError. */
  async #told() {
    const incoming = await this.#node.fetch(ASKED, BESIDE, { signal: new AbortController().signal });
    try {
      const list = incoming.status === 200 ? parsed(await collected(incoming.chunks())) : null;
      if (!isObject(list) || !Array.isArray(list.data)) throw new OriginError("the node told no list of models");
      const models = list.data.filter((model) => isObject(model) && isName(model.id) && isName(model.revision));
      return new Map(models.map(({ id, revision }) => [id, revision]));
    } finally {
      incoming.close();
    }
  }

  /** What was copied into KV, or null.  Never throws. */
  async #copied() {
    try {
      const asked = this.#kv.get(await this.#name(), { type: "text", cacheTtl: CACHE_TTL_S });
      const text = await within(asked, TIER_DEADLINE_MS, () => new StoreError("KV did not answer in time"));
      const at = text?.indexOf("\n") ?? -1;
      if (at < 0 || text.slice(0, at) !== (await this.#seal(text.slice(at + 1)))) return null;
      return new Map(Object.entries(JSON.parse(text.slice(at + 1))));
    } catch {
      this.errors += 1;
      return null;
    }
  }

  /** Puts what the node told into KV where that has something else, or once a day.  Never throws. */
  async #copy(revisions) {
    const isAgain = this.#last !== null && this.#nowMs() - this.#copiedMs >= COPY_AGAIN_MS;
    if (this.#last !== null && areSame(this.#last, revisions) && !isAgain) return;
    const there = await this.#copied();
    this.#copiedMs = this.#nowMs();
    this.#last = revisions;
    if (there !== null && areSame(there, revisions) && !isAgain) return;
    const text = JSON.stringify(Object.fromEntries(revisions));
    try {
      await this.#kv.put(await this.#name(), `${await this.#seal(text)}\n${text}`, { expirationTtl: COPY_S });
    } catch {
      this.errors += 1;
    }
  }

  async #name() {
    return `foretold/1/catalogue/${await digest(utf8(this.#node.url))}`;
  }

  async #seal(text) {
    return hex(await hmac(this.#secret, utf8(`catalogue\n${this.#node.url}\n${text}`)));
  }
}

function isName(value) {
  return typeof value === "string" && value !== "";
}

function parsed(body) {
  try {
    return JSON.parse(textOf(body));
  } catch {
    throw new OriginError("the node told no JSON");
  }
}

function areSame(one, other) {
  return one.size === other.size && [...one].every(([name, value]) => other.get(name) === value);
}
