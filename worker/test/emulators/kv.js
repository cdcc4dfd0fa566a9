/**
 * Workers KV as strict as its documentation lets it be, where the local one is lenient.
 *
 * Like production, unlike the local store: a write is seen late in other places than its own; a reader keeps what it
 * read, and that it found nothing, for `cacheTtl`; a second write of a key within a second is refused; so are values
 * over 25 MiB, TTLs under 60 s, names that are none, more than 100 names at once.
 *
 * Unlike production: lateness is always LATE_MS, never less; a day's limit is reached when a test says so; `list` and
 * streams are left out, since the Worker asks for neither.
 */

export const LATE_MS = 10_000;
const LARGEST_BYTES = 25 * 2 ** 20;
const LONGEST_NAME_BYTES = 512;
const LONGEST_METADATA_BYTES = 1024;
const MOST_AT_ONCE = 100;
const [LEAST_TTL_S, LEAST_CACHE_TTL_S, CACHE_TTL_S] = [60, 30, 60];

export class KvEmulator {
  writes = 0;
  refused = 0;
  reads = 0;
  /** `day`: no writes any more today; `reads`, `writes`: they fail; `hang`: nothing answers. */
  fault = null;
  #versions = new Map();
  #nowMs;

  constructor({ nowMs }) {
    this.#nowMs = nowMs;
  }

  /** The namespace as one place sees it. */
  at(place) {
    return new Place(this, place, this.#nowMs);
  }

  names() {
    return [...this.#versions.keys()].filter((name) => this.seen(name, null) !== null);
  }

  /** The newest value, wherever it was written. */
  newest(name) {
    return this.seen(name, null);
  }

  /** What the central store shows a place now; `place` null sees all. */
  seen(name, place) {
    const nowMs = this.#nowMs();
    const isSeen = (v) => place === null || v.place === place || nowMs - v.writtenMs >= LATE_MS;
    const version = (this.#versions.get(name) ?? []).findLast(isSeen);
    return version === undefined || version.value === null || version.expiresMs <= nowMs ? null : version;
  }

  write(name, version) {
    const versions = this.#versions.get(name) ?? [];
    const last = versions.at(-1);
    if (this.fault === "day") this.#refuse("KV put() limit exceeded for the day.");
    if (this.fault === "writes") throw new Error("KV PUT failed: 500 Internal Server Error");
    if (last !== undefined && this.#nowMs() - last.writtenMs < 1000) {
      this.#refuse("KV PUT failed: 429 Too Many Requests");
    }
    this.writes += 1;
    this.#versions.set(name, [...versions.slice(-4), version]);
  }

  #refuse(message) {
    this.refused += 1;
    throw new Error(message);
  }
}

class Place {
  #kv;
  #place;
  #nowMs;
  #read = new Map();

  constructor(kv, place, nowMs) {
    this.#kv = kv;
    this.#place = place;
    this.#nowMs = nowMs;
  }

  async get(names, options = {}) {
    const { type = "text", cacheTtl = CACHE_TTL_S } = typeof options === "string" ? { type: options } : options;
    if (cacheTtl < LEAST_CACHE_TTL_S) throw new TypeError(`Invalid cache_ttl of ${cacheTtl}: at least 30`);
    if (this.#kv.fault === "hang") await new Promise(() => {});
    if (this.#kv.fault === "reads") throw new Error("KV GET failed: 500 Internal Server Error");
    if (!Array.isArray(names)) return this.#valueOf(names, { type, cacheTtl });
    if (names.length > MOST_AT_ONCE) throw new Error("KV GET_BULK failed: 400 You can request a maximum of 100 keys");
    if (type !== "text" && type !== "json") throw new Error(`"${type}" is not a valid type for bulk get`);
    return new Map(names.map((name) => [name, this.#valueOf(name, { type, cacheTtl })]));
  }

  async put(name, value, { expirationTtl = null, metadata = null } = {}) {
    checkName(name);
    const bytes = typeof value === "string" ? new TextEncoder().encode(value) : new Uint8Array(value).slice();
    if (bytes.length > LARGEST_BYTES) throw new Error("KV PUT failed: 413 Value length exceeds limit of 26214400.");
    if (expirationTtl !== null && !(Number.isInteger(expirationTtl) && expirationTtl >= LEAST_TTL_S)) {
      throw new Error(`KV PUT failed: 400 Invalid expiration_ttl of ${expirationTtl}. It must be at least 60.`);
    }
    if (JSON.stringify(metadata).length > LONGEST_METADATA_BYTES) {
      throw new Error("KV PUT failed: 413 Metadata too long");
    }
    const nowMs = this.#nowMs();
    const expiresMs = expirationTtl === null ? Infinity : nowMs + expirationTtl * 1000;
    this.#kv.write(name, { value: bytes, writtenMs: nowMs, expiresMs, place: this.#place });
    this.#read.delete(name);
  }

  async delete(name) {
    checkName(name);
    this.#kv.write(name, { value: null, writtenMs: this.#nowMs(), expiresMs: Infinity, place: this.#place });
    this.#read.delete(name);
  }

  #valueOf(name, { type, cacheTtl }) {
    checkName(name);
    const nowMs = this.#nowMs();
    let read = this.#read.get(name);
    if (read === undefined || nowMs - read.readMs >= cacheTtl * 1000) {
      this.#kv.reads += 1;
      read = { version: this.#kv.seen(name, this.#place), readMs: nowMs };
      this.#read.set(name, read);
    }
    const { version } = read;
    if (version === null || version.expiresMs <= nowMs) return null;
    if (type === "arrayBuffer") return version.value.slice().buffer;
    const text = new TextDecoder().decode(version.value);
    return type === "json" ? JSON.parse(text) : text;
  }
}

function checkName(name) {
  const bytes = new TextEncoder().encode(name).length;
  if (bytes === 0 || name === "." || name === "..") throw new TypeError("Key name cannot be empty, . or ..");
  if (bytes > LONGEST_NAME_BYTES) throw new Error(`KV failed: 414 UTF-8 encoded length of ${bytes} exceeds 512.`);
}
