/**
 * Workers Cache: the platform's own cache before an inner entrypoint of this Worker, which reads KV.
 *
 * What it has not it reads through, so it and KV are one look-up; many who want one record at once are one read.  It
 * keeps a record for a minute, and a day more while it reads anew behind, whatever the record's own times are: these
 * are judged here on every hit.
 */

import { recordName } from "../contract/key.js";
import { StoreError } from "../errors.js";
import { Halves } from "../halves.js";

// The host is not part of the platform's key, and never reached.
export const INNER = "https://foretold.internal/records/";
const NAME = /^foretold\/1\/([0-9a-f]{64})\/([0-9a-f]{64})$/;
const FRESH_S = 60;
const STALE_S = 86_400;
const SEEN_NAMES = 10_000;

export class FrontStore {
  name = "front";
  /** Where it finds nothing, nothing is in KV either. */
  readsThrough = true;
  #inner;
  #seen = new Halves(SEEN_NAMES);

  /** `inner` has the entrypoint's `fetch`, and `purge` for tags. */
  constructor(inner) {
    this.#inner = inner;
  }

  async get(name) {
    const answer = await this.#inner.fetch(new Request(INNER + name));
    if (answer.status === 404) return null;
    if (answer.status !== 200) throw new StoreError(`the inner entrypoint answered ${answer.status}`);
    this.#seen.put(name, true, { cost: 1 });
    return new Uint8Array(await answer.arrayBuffer());
  }

  /** KV has a newer one: what was seen here is let go of.  The platform takes few purges, so only then. */
  async put(name) {
    if (this.#seen.get(name) === undefined) return;
    this.#seen.delete(name);
    await this.delete(name);
  }

  async delete(name) {
    await this.#inner.purge({ tags: [tagOf(name)] });
  }
}

/** The inner entrypoint's whole work: a record of KV as an answer that may be cached, or a 404 that may not. */
export async function recordFrom(kv, request) {
  const [, namespace, key] = NAME.exec(new URL(request.url).pathname.replace("/records/", "")) ?? [];
  if (namespace === undefined || request.method !== "GET") return nothing(404);
  const name = recordName(namespace, key);
  let blob;
  try {
    blob = await kv.get(name);
  } catch {
    return nothing(503);
  }
  if (blob === null) return nothing(404);
  return new Response(blob, {
    headers: {
      "content-type": "application/octet-stream",
      "cache-control": `max-age=${FRESH_S}, stale-while-revalidate=${STALE_S}`,
      "cache-tag": tagOf(name),
    },
  });
}

function nothing(status) {
  return new Response(null, { status, headers: { "cache-control": "no-store" } });
}

/** A tag may be of 1,024 characters, in any case of letters: a name is both. */
function tagOf(name) {
  return name.replaceAll("/", "-");
}
