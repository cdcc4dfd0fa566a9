/** R2: bodies too long for KV, under the same names (rule R4).  A bucket's lifecycle rule takes them out, not we. */

export class R2Store {
  name = "r2";
  #bucket;

  constructor(bucket) {
    this.#bucket = bucket;
  }

  async get(name) {
    const object = await this.#bucket.get(name);
    return object === null ? null : new Uint8Array(await object.arrayBuffer());
  }

  async put(name, blob) {
    await this.#bucket.put(name, blob, { httpMetadata: { contentType: "application/octet-stream" } });
  }

  async delete(name) {
    await this.#bucket.delete(name);
  }
}
