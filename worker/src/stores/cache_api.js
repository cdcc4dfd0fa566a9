/**
 * The data centre's cache, by the Cache API.
 *
 * It keeps what its own headers say, so the time that it may keep a record goes with it as max-age; whether the record
 * is still good is written in the record.  On workers.dev and behind Access the platform keeps nothing here.
 */

const CACHE = "foretold/1";

export class CacheApiStore {
  name = "cache";
  #origin;
  #caches;
  #opened = null;

  /** `origin` is where this edge is reached: the platform wants keys under a host that exists. */
  constructor(caches, origin) {
    this.#caches = caches;
    this.#origin = origin;
  }

  async get(name) {
    const cache = await this.#open();
    const found = await cache.match(this.#address(name));
    return found === undefined ? null : new Uint8Array(await found.arrayBuffer());
  }

  async put(name, blob, { keepS }) {
    const cache = await this.#open();
    const headers = { "content-type": "application/octet-stream", "cache-control": `max-age=${keepS}` };
    await cache.put(this.#address(name), new Response(blob, { headers }));
  }

  async delete(name) {
    const cache = await this.#open();
    await cache.delete(this.#address(name));
  }

  /** A cache of our own name: nothing of it is ever served to a request that didn't come through here. */
  #open() {
    this.#opened ??= this.#caches.open(CACHE);
    return this.#opened;
  }

  #address(name) {
    return `${this.#origin}/-/records/${name}`;
  }
}
