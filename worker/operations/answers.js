/** What the operations of vectors about records, time, controls and answers do here. */

import { bodyControls, readControls } from "../src/contract/aliases.js";
import { hex } from "../src/contract/bytes.js";
import { NONE, cacheControl, isLabel, ownControls, splitQuery, ttlS } from "../src/contract/controls.js";
import { ending } from "../src/contract/endings.js";
import { RecordCorrupt } from "../src/contract/errors.js";
import { Splitter, endsCleanly, split } from "../src/contract/events.js";
import {
  LIFETIMES, accepts, ageS, judge, kvExpirationS, madeMs, mayReplaceError, mayRevalidateBehind, upstreamLifetimes,
} from "../src/contract/freshness.js";
import { asBase64, asNumbers, dimensions, ofBase64, ofNumbers } from "../src/contract/float32.js";
import { callerTag, generationName, implicitTags, isAlive, isCallerTag } from "../src/contract/generations.js";
import { edgeMayStore, mayFallBack, retryAfterS } from "../src/contract/manners.js";
import { keptHeaders, openSealed, pack, unpack } from "../src/contract/record.js";
import { cacheStatus, clientCacheControl, etag, etagMatches, listed, mayAnswer304 } from "../src/contract/status.js";
import { hasLimit, isNegative, whyNot, whyNotVectors } from "../src/contract/storable.js";
import { bodyOf } from "./keys.js";
import { SECRET, bytesOf, inCamelCase, inSnakeCase, secondsOf, text } from "./values.js";

async function unpacked({ blob, key, namespace }) {
  const record = await unpack(bytesOf(blob), SECRET, { key, namespace });
  return { ...record, body: hex(record.body) };
}

/** All truncations, and each byte changed in its lowest and in its highest bit. */
async function everyDamageIsCorrupt(given) {
  const blob = bytesOf(given.blob);
  await openSealed(blob, SECRET);
  for (let at = 0; at < blob.length; at++) {
    const damaged = [blob.slice(0, at), changed(blob, at, 0x01), changed(blob, at, 0x80)];
    if (!(await Promise.all(damaged.map(isCorrupt))).every(Boolean)) return false;
  }
  return true;
}

function changed(blob, at, bits) {
  const other = blob.slice();
  other[at] ^= bits;
  return other;
}

async function isCorrupt(blob) {
  try {
    await openSealed(blob, SECRET);
    return false;
  } catch (error) {
    if (error instanceof RecordCorrupt) return true;
    throw error;
  }
}

function judged({ made_ms: made, lifetimes = LIFETIMES, now_ms: now }) {
  return [judge(made, lifetimes, now), lifetimes];
}

function isAccepted(given) {
  const { max_age_s: maxAgeS, min_fresh_s: minFreshS, max_stale_s: maxStaleS } = given;
  return accepts(judged(given)[0], { maxAgeS, minFreshS, maxStaleS: secondsOf(maxStaleS) });
}

function lifetimesOfUpstream({ headers, lifetimes, shared_scope: sharedScope, keyed, now_ms: nowMs }) {
  const byName = new Map(Object.entries(headers));
  return upstreamLifetimes(byName, lifetimes, { sharedScope, keyed: new Set(keyed), nowMs });
}

/** Only what differs from asking nothing. */
function wishes(found) {
  const told = (value) => (value === Infinity ? "any" : value);
  const isSaid = ([name, value]) => JSON.stringify(told(value)) !== JSON.stringify(told(NONE[name]));
  const said = Object.entries(found).filter(isSaid);
  return inSnakeCase(Object.fromEntries(said.map(([name, value]) => [name, told(value)])));
}

function splitInTwo({ query }) {
  const [found, kept] = splitQuery(query);
  return { found, kept };
}

function allControls({ headers, query = "", chance }) {
  const [inQuery] = splitQuery(query);
  return wishes(readControls(headers, inQuery, { chance }));
}

function splitEvents({ transcript }) {
  const [events, rest] = split(bytesOf(transcript));
  return { events: events.map((event) => ({ ...event, raw: text(event.raw) })), rest: text(rest) };
}

function feed({ chunks, longest_bytes: longestBytes }) {
  const splitter = new Splitter({ longestBytes });
  const fed = chunks.map((chunk) => splitter.feed(bytesOf(chunk)).map(text));
  return { fed, rest: text(splitter.rest()) };
}

function asOtherForm({ embedding }) {
  if (dimensions(embedding) === null) return null;
  return Array.isArray(embedding) ? asBase64(ofNumbers(embedding)) : asNumbers(ofBase64(embedding));
}

export const OPERATIONS = {
  pack: ({ record }) => pack({ ...record, body: bytesOf(record.body) }, SECRET),
  unpack: unpacked,
  every_damage_is_corrupt: everyDamageIsCorrupt,
  kept_headers: ({ headers }) => keptHeaders(headers),
  is_caller_tag: ({ tag }) => isCallerTag(tag),
  implicit_tags: ({ namespaces, ...rest }) => implicitTags(namespaces, rest),
  caller_tag: ({ tenant_namespace: namespace, tag }) => callerTag(namespace, tag),
  is_alive: ({ held, current }) => isAlive(held, current),
  generation_name: ({ tag }) => generationName(tag),
  age_s: ({ made_ms: made, now_ms: now }) => ageS(made, now),
  judge: (given) => inSnakeCase(judged(given)[0]),
  may_revalidate_behind: (given) => mayRevalidateBehind(...judged(given)),
  may_replace_error: (given) => mayReplaceError(...judged(given)),
  accepts: isAccepted,
  kv_expiration_s: (given) => kvExpirationS(...judged(given)),
  made_ms: ({ last_byte_ms: lastByteMs, age }) => madeMs(lastByteMs, age),
  upstream_lifetimes: lifetimesOfUpstream,
  split_query: splitInTwo,
  cache_control: ({ value }) => wishes(cacheControl(value)),
  own_controls: ({ pairs }) => wishes(ownControls(pairs)),
  ttl_s: ({ value }) => ttlS(value),
  is_label: ({ value }) => isLabel(value),
  read_controls: allControls,
  body_controls: (given) => wishes(bodyControls(bodyOf(given).cache)),
  has_limit: ({ body }) => hasLimit(body),
  why_not: ({ operation, status, answer, limited }) => whyNot(operation, status, answer, { limited }),
  why_not_vectors: ({ items, inputs }) => whyNotVectors(items, inputs),
  other_form: asOtherForm,
  is_negative: ({ status, answer }) => isNegative(status, answer),
  ending: (given) => inSnakeCase(ending(inCamelCase(given))),
  cache_status: ({ status }) => cacheStatus(inCamelCase(status)),
  listed: ({ before, status }) => listed(before, cacheStatus(inCamelCase(status))),
  etag: ({ body_sha256: bodySha256, shape }) => etag(bodySha256, shape),
  etag_matches: ({ if_none_match: ifNoneMatch, etag: tag }) => etagMatches(ifNoneMatch, tag),
  client_cache_control: ({ method, hit }) => clientCacheControl(method, { hit }),
  may_answer_304: ({ method }) => mayAnswer304(method),
  retry_after_s: (given) => retryAfterS(inCamelCase(given)),
  may_fall_back: (given) => mayFallBack(given),
  edge_may_store: ({ cache_status: said }) => edgeMayStore(said),
  split: splitEvents,
  ends_cleanly: ({ transcript }) => endsCleanly(...split(bytesOf(transcript))),
  splitter: feed,
};
