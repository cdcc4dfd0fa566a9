/**
 * A prediction as kept: sealed header and body in one run of bytes (rules R1 to R3).
 *
 *     magic and version 4 · header length 4, big-endian · HMAC-SHA-256(secret, header) 32 ·
 *     header, RFC 8785 JSON · body
 *
 * The same bytes lie in every store.  What doesn't unpack is absent, never repaired.
 *
 * A record is an object with the header's members in rule R2's words, save those that speak of the body, and `body`.
 * `engine` and `usage` may be missing; `rest` holds header members of a later writer, kept as they are.
 */

import { digest, hmac, hmacKey, joined, textOf, utf8 } from "./bytes.js";
import { canonical, isObject, parsed, settle } from "./canonical.js";
import { RecordCorrupt, Unkeyable } from "./errors.js";

export const MAGIC = utf8("FTD\x01");
export const MAX_HEADER_BYTES = 16 * 1024;
export const KEPT_HEADERS = new Set([
  "content-type", "content-language", "content-disposition", "foretold-usage", "openai-model", "openai-version",
]);
export const MAX_KEPT_HEADER_BYTES = 2 * 1024;

const SEAL_AT = 8;
const HEADER_AT = 40;
const KINDS = new Set(["answer", "negative", "pointer"]);
const SHAPES = new Set(["whole", "events", "vector"]);
const TEXTS = ["key", "namespace", "operation", "model", "revision", "kind", "content_type", "shape"];
const NUMBERS = [
  "made_ms", "asked_ms", "fresh_s", "stale_while_revalidate_s", "stale_if_error_s", "status", "took_ms", "body_bytes",
];
const OF_THE_BODY = ["body_sha256", "body_bytes"];
const KEPT_MEMBERS = new Set([
  ...TEXTS, ...NUMBERS.filter((name) => !OF_THE_BODY.includes(name)), "headers", "has", "tags", "engine", "usage",
]);

/**
 * The bytes of a record.
 *
 * Throws RangeError if its header is longer than 16 KiB or holds a number that has no canonical form.
 */
export async function pack(record, secret) {
  const known = Object.entries(record).filter(([name, value]) => KEPT_MEMBERS.has(name) && (value ?? null) !== null);
  const header = utf8(
    sealedText({
      ...record.rest,
      ...Object.fromEntries(known),
      body_sha256: await bodyDigest(record.body),
      body_bytes: record.body.length,
    }),
  );
  if (header.length > MAX_HEADER_BYTES) {
    throw new RangeError(`the record's header has ${header.length} bytes; at most ${MAX_HEADER_BYTES} are kept`);
  }
  const length = new Uint8Array(4);
  new DataView(length.buffer).setUint32(0, header.length);
  return joined([MAGIC, length, await hmac(secret, header), header, record.body]);
}

/**
 * The record in a blob that was kept for this key and namespace.
 *
 * Throws RecordCorrupt for a wrong length, seal, key, namespace or body digest, and for header members that are
 * missing or of the wrong kind.
 */
export async function unpack(blob, secret, { key, namespace }) {
  const record = await openSealed(blob, secret);
  if (record.key !== key || record.namespace !== namespace) throw new RecordCorrupt("the record is another query's");
  return record;
}

/** The record in a blob, whosever it is; throws RecordCorrupt. */
export async function openSealed(blob, secret) {
  if (blob.length < HEADER_AT || MAGIC.some((byte, at) => blob[at] !== byte)) {
    throw new RecordCorrupt("no record of this version");
  }
  const length = new DataView(blob.buffer, blob.byteOffset).getUint32(4);
  const header = blob.subarray(HEADER_AT, HEADER_AT + length);
  if (length > MAX_HEADER_BYTES || header.length < length) throw new RecordCorrupt("the header is cut");
  const seal = blob.subarray(SEAL_AT, HEADER_AT);
  if (!(await crypto.subtle.verify("HMAC", await hmacKey(secret), seal, header))) {
    throw new RecordCorrupt("the seal is broken");
  }
  return fromHeader(header, blob.subarray(HEADER_AT + length));
}

const digests = new WeakMap();

/** Hex SHA-256 of a record's body, computed once: nobody writes into it. */
export async function bodyDigest(body) {
  let found = digests.get(body);
  if (found === undefined) {
    found = await digest(body);
    digests.set(body, found);
  }
  return found;
}

/** The headers of an answer that its record keeps: the known few, each once, together at most 2 KiB. */
export function keptHeaders(headers) {
  const kept = new Map();
  let room = MAX_KEPT_HEADER_BYTES;
  for (const [given, value] of headers) {
    const name = given.toLowerCase();
    const cost = name.length + value.length;
    if (!KEPT_HEADERS.has(name) || kept.has(name) || cost > room) continue;
    kept.set(name, value);
    room -= cost;
  }
  return [...kept].sort(([one], [other]) => (one < other ? -1 : 1));
}

function sealedText(members) {
  try {
    return canonical(settle(members));
  } catch (error) {
    if (!(error instanceof Unkeyable)) throw error;
    throw new RangeError("the record's header holds a number beyond what JSON readers agree on");
  }
}

async function fromHeader(header, body) {
  const members = headerMembers(header);
  if (!TEXTS.every((name) => typeof members[name] === "string")) {
    throw new RecordCorrupt("a text is missing from the header");
  }
  if (!NUMBERS.every((name) => Number.isInteger(members[name]))) {
    throw new RecordCorrupt("a number is missing from the header");
  }
  if (!areOfTheirKinds(members)) throw new RecordCorrupt("a member of the header is of the wrong kind");
  if (!KINDS.has(members.kind) || !SHAPES.has(members.shape)) throw new RecordCorrupt("an unknown kind or shape");
  if (members.body_bytes !== body.length || members.body_sha256 !== (await bodyDigest(body))) {
    throw new RecordCorrupt("the body is not the one recorded");
  }
  const known = Object.entries(members).filter(([name]) => KEPT_MEMBERS.has(name));
  const rest = Object.entries(members).filter(([name]) => !KEPT_MEMBERS.has(name) && !OF_THE_BODY.includes(name));
  return { ...Object.fromEntries(known), rest: Object.fromEntries(rest), body };
}

function headerMembers(header) {
  let members;
  try {
    [members] = parsed(textOf(header));
  } catch {
    throw new RecordCorrupt("the header is not JSON");
  }
  if (!isObject(members)) throw new RecordCorrupt("the header is not an object");
  return members;
}

function areOfTheirKinds({ headers, has, tags, engine = "", usage = {} }) {
  return (
    Array.isArray(headers) &&
    headers.every((pair) => Array.isArray(pair) && pair.length === 2 && areTexts(pair)) &&
    Array.isArray(has) &&
    areTexts(has) &&
    isObject(tags) &&
    areTexts(Object.values(tags)) &&
    typeof engine === "string" &&
    isObject(usage)
  );
}

function areTexts(values) {
  return values.every((value) => typeof value === "string");
}
