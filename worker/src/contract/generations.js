/** Purging without touching records: a tag's generation (rule G1). */

import { digest, utf8 } from "./bytes.js";

export const EVERYTHING = "*";
export const MAX_CALLER_TAGS = 16;
export const NEVER_PURGED = "";

const CALLER_TAG = /^[a-z0-9_.:-]{1,64}$/;

export function isCallerTag(tag) {
  return CALLER_TAG.test(tag);
}

/** The tags every record has: everything, its namespace and all ancestors, its model, revision and engine. */
export function implicitTags(namespaces, { model, revision, engine = null }) {
  const tags = [
    EVERYTHING, ...namespaces.map((namespace) => `namespace:${namespace}`), `model:${model}`, `revision:${revision}`,
  ];
  return engine ? [...tags, `engine:${engine}`] : tags;
}

/** A caller's tag, which lives in the namespace of its tenant. */
export function callerTag(tenantNamespace, tag) {
  return `tag:${tenantNamespace}:${tag}`;
}

/**
 * Whether no tag of a record was purged since its flight began.
 *
 * `held` are the record's tags with the generations it read; `current` those of now, a tag never purged being absent.
 * A table without `*` is lost, and kills all.
 */
export function isAlive(held, current) {
  if (!Object.hasOwn(held, EVERYTHING) || !Object.hasOwn(current, EVERYTHING)) return false;
  return Object.entries(held).every(
    ([tag, generation]) => (Object.hasOwn(current, tag) ? current[tag] : NEVER_PURGED) === generation,
  );
}

/** Where KV keeps a tag's generation. */
export async function generationName(tag) {
  return `foretold/1/generation/${await digest(utf8(tag))}`;
}
