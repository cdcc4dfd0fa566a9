/**
 * The local KV at the paths of Cloudflare's REST API: what a node reads and writes when its tier `cloudflare_kv` has
 * this address.
 *
 * As there, a bulk call takes 10,000 items or 100 keys to read, a value has 25 MiB and lives 60 s at least.  Unlike there,
 * what is written is seen at once, a key may be written twice in a second, and no call is one too many.
 */

import { timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const LARGEST_VALUE_BYTES = 25 * 2 ** 20;
const LARGEST_REQUEST_BYTES = 100 * 10 ** 6;
const LONGEST_NAME_BYTES = 512;
const MOST_WRITTEN_AT_ONCE = 10_000;
const MOST_READ_AT_ONCE = 100;
const LEAST_TTL_S = 60;
const AT_ONCE = 32;

class Refusal extends Error {
  constructor(status, code, message) {
    super(message);
    Object.assign(this, { status, code });
  }
}

export class Door {
  #base;
  #token;
  #kv;
  #server;

  /** `kv` gives the namespace's binding: another after each change of the Worker. */
  constructor({ account, namespace, token }, { kv }) {
    this.#base = `/client/v4/accounts/${account}/storage/kv/namespaces/${namespace}`;
    this.#token = Buffer.from(`Bearer ${token}`);
    this.#kv = kv;
    this.#server = createServer((request, response) => this.#answer(request, response));
  }

  get url() {
    return `http://127.0.0.1:${this.#server.address().port}/client/v4`;
  }

  listen(port) {
    return new Promise((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(port, "127.0.0.1", resolve);
    });
  }

  close() {
    this.#server.closeAllConnections();
    return new Promise((resolve) => this.#server.close(resolve));
  }

  async #answer(request, response) {
    try {
      const told = await this.#told(request, await bodyOf(request));
      if (told instanceof Uint8Array) {
        response.writeHead(200, { "content-type": "application/octet-stream" }).end(told);
      } else {
        json(response, 200, { success: true, errors: [], messages: [], result: null, ...told });
      }
    } catch (error) {
      const { status = 500, code = 10000, message } = error;
      json(response, status, { success: false, errors: [{ code, message }], messages: [], result: null });
    }
  }

  async #told(request, body) {
    const given = Buffer.from(request.headers.authorization ?? "");
    if (given.length !== this.#token.length || !timingSafeEqual(given, this.#token)) {
      throw new Refusal(401, 10000, "Authentication error");
    }
    const [path, query = ""] = request.url.split("?", 2);
    if (!path.startsWith(`${this.#base}/`)) throw new Refusal(404, 10013, "there is no such namespace here");
    const [, what, name] = /^\/(values|keys|bulk)(?:\/(.*))?$/.exec(path.slice(this.#base.length)) ?? [];
    const act = ACTS[`${request.method} ${what}${what === "bulk" && name ? `/${name}` : ""}`];
    if (act === undefined) throw new Refusal(405, 7001, "Method not available for that URI.");
    const asked = { name: what === "values" ? nameOf(name) : null, query: new URLSearchParams(query), body };
    return act(await this.#kv(), asked);
  }
}

const ACTS = {
  "GET values": async (kv, { name }) => {
    const value = await kv.get(name, "arrayBuffer");
    if (value === null) throw new Refusal(404, 10009, "get: 'key not found'");
    return new Uint8Array(value);
  },
  "PUT values": async (kv, { name, query, body }) => {
    await put(kv, name, body, ttlOf(query.get("expiration_ttl"), query.get("expiration")));
  },
  "DELETE values": (kv, { name }) => kv.delete(name),
  "GET keys": async (kv, { query }) => {
    const limit = Number(query.get("limit") ?? 1000);
    const cursor = query.get("cursor") || undefined;
    const told = await kv.list({ prefix: query.get("prefix") ?? "", limit, cursor });
    return {
      result: told.keys.map(({ name }) => ({ name })),
      result_info: { count: told.keys.length, cursor: told.list_complete ? "" : told.cursor },
    };
  },
  "PUT bulk": async (kv, { body }) => {
    const pairs = listOf(body).map(pairOf);
    await each(pairs, ({ name, value, ttlS }) => put(kv, name, value, ttlS));
    return { result: { successful_key_count: pairs.length, unsuccessful_keys: [] } };
  },
  "POST bulk/delete": async (kv, { body }) => {
    const names = listOf(body).map(nameIn);
    await each(names, (name) => kv.delete(name));
    return { result: { successful_key_count: names.length, unsuccessful_keys: [] } };
  },
  "POST bulk/get": async (kv, { body }) => {
    const { keys } = parsed(body);
    if (!Array.isArray(keys) || keys.length < 1 || keys.length > MOST_READ_AT_ONCE) {
      throw new Refusal(400, 10057, `a bulk read takes 1 to ${MOST_READ_AT_ONCE} keys`);
    }
    const values = {};
    await each(keys.map(nameIn), async (name) => {
      values[name] = await kv.get(name, "text");
    });
    return { result: { values } };
  },
};

async function put(kv, name, value, ttlS) {
  if (value.length > LARGEST_VALUE_BYTES) {
    throw new Refusal(413, 10032, `Value length of ${value.length} exceeds limit of ${LARGEST_VALUE_BYTES}`);
  }
  // Not Node's own kind of bytes: the platform's client doesn't know them.
  const bytes = new Uint8Array(value.buffer, value.byteOffset, value.length).slice();
  await kv.put(name, bytes.buffer, ttlS === null ? {} : { expirationTtl: ttlS });
}

/** Some at a time: each is a call to the runtime. */
async function each(items, act) {
  const waiting = [...items].reverse();
  const worker = async () => {
    while (waiting.length > 0) await act(waiting.pop());
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, items.length) }, worker));
}

function pairOf(told) {
  const { key, value, base64, expiration, expiration_ttl } = told ?? {};
  if (typeof value !== "string") throw new Refusal(400, 10012, "a pair is no object of key and value");
  const bytes = Buffer.from(value, base64 ? "base64" : "utf8");
  return { name: nameIn(key), value: bytes, ttlS: ttlOf(expiration_ttl, expiration) };
}

function ttlOf(ttl, expiration) {
  if ((ttl ?? null) === null && (expiration ?? null) === null) return null;
  const ttlS = (ttl ?? null) === null ? Number(expiration) - Date.now() / 1000 : Number(ttl);
  if (!(ttlS >= LEAST_TTL_S)) {
    throw new Refusal(400, 10033, `Invalid expiration_ttl of ${ttlS}. Expiration TTL must be at least ${LEAST_TTL_S}.`);
  }
  return Math.floor(ttlS);
}

function nameOf(escaped) {
  try {
    return nameIn(decodeURIComponent(escaped ?? ""));
  } catch (error) {
    throw error instanceof Refusal ? error : new Refusal(400, 10011, "a name's escapes can't be read");
  }
}

function nameIn(name) {
  if (typeof name !== "string" || ["", ".", ".."].includes(name)) {
    throw new Refusal(400, 10011, "key names must not be empty, . or ..");
  }
  const bytes = Buffer.byteLength(name);
  if (bytes <= LONGEST_NAME_BYTES) return name;
  throw new Refusal(414, 10030, `UTF-8 encoded length of ${bytes} exceeds key length limit of ${LONGEST_NAME_BYTES}`);
}

function listOf(body) {
  const told = parsed(body);
  if (Array.isArray(told) && told.length >= 1 && told.length <= MOST_WRITTEN_AT_ONCE) return told;
  throw new Refusal(400, 10012, `a bulk call takes 1 to ${MOST_WRITTEN_AT_ONCE} items`);
}

function parsed(body) {
  try {
    return JSON.parse(body.toString("utf8")) ?? {};
  } catch {
    throw new Refusal(400, 10001, "could not parse the JSON body");
  }
}

async function bodyOf(request) {
  const pieces = [];
  let length = 0;
  for await (const piece of request) {
    length += piece.length;
    if (length <= LARGEST_REQUEST_BYTES) pieces.push(piece);
  }
  if (length > LARGEST_REQUEST_BYTES) throw new Refusal(413, 10001, "a call has at most 100 MB");
  return Buffer.concat(pieces);
}

function json(response, status, value) {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
}
