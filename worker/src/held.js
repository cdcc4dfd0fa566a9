/** A record opened once: what answering needs, and beside it the answers made of it, by what was asked (ready.js). */

import { bodyDigest } from "./contract/record.js";

export async function held(record) {
  return { ...record, digest: (await bodyDigest(record.body)).slice(0, 16), ready: new Map() };
}

/** The lifetimes of a record; it has them among its members. */
export function lifetimesOf({ fresh_s, stale_while_revalidate_s, stale_if_error_s }) {
  return { fresh_s, stale_while_revalidate_s, stale_if_error_s };
}
