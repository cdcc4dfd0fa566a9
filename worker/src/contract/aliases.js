/**
 * Caching controls by the names of other products (rule C3): whoever moves here keeps their headers.
 *
 * What an alias says that can't be read is ignored and named in `ignoredAliases`, never refused: another product's
 * client must go on working.
 */

import { isObject } from "./canonical.js";
import { MAX_TOLD, NONE, cacheControl, controls, isLabel, ownControls, stricter, ttlS } from "./controls.js";
import { CEILING_S } from "./freshness.js";
import { ignoredNames } from "./inputs.js";
import { trimmed } from "./query.js";

export const MAX_BUCKETS = 100;

const DURATION = /^([0-9]{1,9})(ms|s|m|h|d)?$/;
const UNIT_MS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const BUCKETS = /^[0-9]{1,3}$/;
const TELLABLE = /^[ -~]{1,32}$/;
const CAREFREE = ["x-portkey-cache", "x-bf-cache-type", "x-bf-cache-threshold"];

/**
 * All controls of a request's head: Cache-Control, then ours, then the aliases in the order of rule C3.
 *
 * `chance` in [0, 1) draws the sample of a bucket.  Throws BadControl for a `foretold-*` that can't be read.
 */
export function readControls(headers, inQuery = [], { chance = 0 } = {}) {
  const given = Array.from(headers, ([name, value]) => [name.toLowerCase(), value]);
  let settled = NONE;
  for (const [name, value] of given) {
    if (name === "cache-control") settled = stricter(settled, cacheControl(value));
  }
  settled = stricter(settled, ownControls([...given, ...inQuery]));
  for (const [alias, reader] of ALIASES) {
    for (const [name, value] of given) {
      if (name === alias) settled = stricter(settled, reader(name, trimmed(value), chance));
    }
  }
  return settled;
}

/**
 * The controls of LiteLLM's body member `cache`; only an object is one.
 *
 * Members may be many: those that can't be read are passed over once enough are told.
 */
export function bodyControls(value) {
  if (!isObject(value)) return NONE;
  let settled = NONE;
  const unread = [];
  for (const [name, said] of Object.entries(value)) {
    const wish = bodyControl(name, said);
    if (wish !== null) settled = stricter(settled, wish);
    else if (unread.length < MAX_TOLD) unread.push(TELLABLE.test(name) ? `cache.${name}` : "cache");
  }
  return unread.length > 0 ? stricter(settled, controls({ ignoredAliases: unread })) : settled;
}

/** What a member asks; null if it can't be read. */
function bodyControl(name, said) {
  if (name === "no-cache" && typeof said === "boolean") return controls({ noCache: said });
  if (name === "no-store" && typeof said === "boolean") return controls({ noStore: said });
  if (name === "namespace" && typeof said === "string" && isLabel(said)) return controls({ children: [said] });
  if (["ttl", "s-maxage", "s-max-age"].includes(name) && isWhole(said) && said >= 0 && said <= CEILING_S) {
    return controls(name === "ttl" ? { storeTtlS: said } : { maxAgeS: said });
  }
  return null;
}

function isWhole(said) {
  return Number.isInteger(said);
}

function noStoreIf(word) {
  return (name, value) => {
    const said = value.toLowerCase();
    return said === "true" || said === "false" ? controls({ noStore: said === word }) : unread(name);
  };
}

function noCache(name, value) {
  const said = value.toLowerCase();
  return said === "true" || said === "false" ? controls({ noCache: said === "true" }) : unread(name);
}

function child(name, value) {
  return isLabel(value) ? controls({ children: [value] }) : unread(name);
}

function ttl(name, value) {
  const seconds = ttlS(value);
  return seconds === null ? unread(name) : controls({ storeTtlS: seconds, maxAgeS: seconds });
}

function durationTtl(name, value) {
  const found = DURATION.exec(value);
  if (found === null) return unread(name);
  const seconds = Math.floor((Number(found[1]) * UNIT_MS[found[2] ?? "s"]) / 1000);
  return seconds <= CEILING_S ? controls({ storeTtlS: seconds, maxAgeS: seconds }) : unread(name);
}

function buckets(name, value, chance) {
  const count = BUCKETS.test(value) ? Number(value) : 0;
  return count >= 1 && count <= MAX_BUCKETS ? controls({ sample: Math.floor(chance * count) }) : unread(name);
}

function ignoredMembers(name, value) {
  const names = value.split(",").map(trimmed).filter((part) => part !== "");
  const allowed = ignoredNames(names);
  return controls({ ignored: allowed, ignoredAliases: allowed.length === new Set(names).size ? [] : [name] });
}

function nothing() {
  return NONE;
}

function unread(name) {
  return controls({ ignoredAliases: [name] });
}

const ALIASES = [
  ["cf-aig-skip-cache", noStoreIf("true")],
  ["cf-skip-cache", noStoreIf("true")],
  ["cf-aig-cache-ttl", ttl],
  ["cf-cache-ttl", ttl],
  ["cf-aig-cache-key", child],
  ["x-portkey-cache-force-refresh", noCache],
  ["x-portkey-cache-namespace", child],
  ["helicone-cache-enabled", noStoreIf("false")],
  ["helicone-cache-seed", child],
  ["helicone-cache-bucket-max-size", buckets],
  ["helicone-cache-ignore-keys", ignoredMembers],
  ["x-bf-cache-key", child],
  ["x-bf-cache-ttl", durationTtl],
  ["x-bf-cache-no-store", noStoreIf("true")],
  ...CAREFREE.map((name) => [name, nothing]),
];
