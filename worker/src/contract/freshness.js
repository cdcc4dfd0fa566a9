/**
 * What time says of a record (rules F1, F2 and C1).
 *
 * Lifetimes are objects with the three members of a record's header that bound its life, in whole seconds; 0 is a
 * value.
 */

import { divided, trimmed } from "./query.js";

export const CEILING_S = 2_592_000;
export const AHEAD_ALLOWED_MS = 5_000;
export const KV_LEAST_S = 60;

const SECONDS = /^[0-9]{1,10}$/;
const IMF_FIXDATE =
  /^[A-Z][a-z]{2}, ([0-9]{2}) ([A-Z][a-z]{2}) (19[7-9][0-9]|[2-9][0-9]{3}) ([0-9]{2}):([0-9]{2}):([0-9]{2}) GMT$/;
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

export const VERDICT = Object.freeze({ FRESH: "fresh", STALE: "stale", DEAD: "dead" });

export const LIFETIMES = Object.freeze({
  fresh_s: 86_400,
  stale_while_revalidate_s: 86_400,
  stale_if_error_s: 604_800,
});

/** Whole seconds since a record was made; 0 if the writer's clock is ahead of ours. */
export function ageS(madeMs, nowMs) {
  return Math.max(0, Math.floor((nowMs - madeMs) / 1000));
}

/** `ttlS` is above 0 while a record is fresh, and counts down from 0 once it is stale. */
export function judge(madeMs, lifetimes, nowMs) {
  const age = ageS(madeMs, nowMs);
  const ttlS = madeMs - nowMs > AHEAD_ALLOWED_MS ? 0 : lifetimes.fresh_s - age;
  if (ttlS > 0) return { verdict: VERDICT.FRESH, ageS: age, ttlS };
  return { verdict: age < usableS(lifetimes) ? VERDICT.STALE : VERDICT.DEAD, ageS: age, ttlS };
}

/** Whether a stale record may be given while a new one is fetched. */
export function mayRevalidateBehind(judged, lifetimes) {
  return judged.verdict === VERDICT.STALE && judged.ageS < lifetimes.fresh_s + lifetimes.stale_while_revalidate_s;
}

/** Whether a stale record may be given because the origin failed. */
export function mayReplaceError(judged, lifetimes) {
  return judged.verdict === VERDICT.STALE && judged.ageS < lifetimes.fresh_s + lifetimes.stale_if_error_s;
}

/**
 * Whether a request with these directives takes the record as it is (RFC 9111 section 5.2.1).
 *
 * `maxStaleS` is null if staleness isn't accepted, infinite if any is.
 */
export function accepts(judged, { maxAgeS = null, minFreshS = 0, maxStaleS = null } = {}) {
  if (maxAgeS !== null && judged.ageS > maxAgeS) return false;
  if (judged.verdict === VERDICT.FRESH) return judged.ttlS >= minFreshS;
  return judged.verdict === VERDICT.STALE && maxStaleS !== null && minFreshS === 0 && -judged.ttlS <= maxStaleS;
}

/** How long KV keeps a record: until it is dead and a minute more, at least a minute. */
export function kvExpirationS(judged, lifetimes) {
  return Math.max(KV_LEAST_S, usableS(lifetimes) - judged.ageS + KV_LEAST_S);
}

/** When an answer was made: its last byte's time, minus the Age its origin gave. */
export function madeMs(lastByteMs, ageHeader) {
  return lastByteMs - ageOf(ageHeader) * 1000;
}

/**
 * The lifetimes an upstream's own directives leave, as a private cache of one namespace (F2); null: not stored.
 *
 * `headers` is a Map with names in lower case; `keyed` the Set of request headers that are part of the key.  Without
 * max-age, Expires less Date counts; an Expires that can't be read has passed (RFC 9111 section 5.3), a Date that can't
 * is now.
 */
export function upstreamLifetimes(headers, lifetimes, { sharedScope, keyed, nowMs }) {
  const directives = directivesOf(headers.get("cache-control") ?? "");
  if (directives.has("no-store") || directives.has("no-cache")) return null;
  if (directives.has("private") && sharedScope) return null;
  const vary = (headers.get("vary") ?? "").split(",").map((name) => trimmed(name).toLowerCase());
  if (!vary.every((name) => name === "" || name === "accept-encoding" || keyed.has(name))) return null;
  let allowedS;
  if (directives.has("max-age")) {
    allowedS = secondsOf(directives.get("max-age"));
  } else if (headers.has("expires")) {
    const dateS = httpDateS(headers.get("date") ?? "") || Math.floor(nowMs / 1000);
    allowedS = httpDateS(headers.get("expires")) - dateS;
  } else {
    return withWindowsOf(directives, lifetimes);
  }
  if (allowedS <= ageOf(headers.get("age"))) return null;
  return withWindowsOf(directives, { ...lifetimes, fresh_s: Math.min(lifetimes.fresh_s, allowedS) });
}

/** Stale windows no longer than an upstream allows (RFC 9111 section 5.2.2.2, RFC 5861). */
function withWindowsOf(directives, lifetimes) {
  if (directives.has("must-revalidate")) {
    return { ...lifetimes, stale_while_revalidate_s: 0, stale_if_error_s: 0 };
  }
  const bounded = { ...lifetimes };
  for (const [name, member] of [
    ["stale-while-revalidate", "stale_while_revalidate_s"],
    ["stale-if-error", "stale_if_error_s"],
  ]) {
    if (directives.has(name)) bounded[member] = Math.min(bounded[member], secondsOf(directives.get(name)));
  }
  return bounded;
}

function usableS(lifetimes) {
  return lifetimes.fresh_s + Math.max(lifetimes.stale_while_revalidate_s, lifetimes.stale_if_error_s);
}

/** The first of several Ages counts (RFC 9111 section 5.1). */
function ageOf(ageHeader) {
  return secondsOf((ageHeader ?? "").split(",", 1)[0]);
}

/** A number of seconds; 0 for what is none. */
function secondsOf(text) {
  return SECONDS.test(trimmed(text)) ? Number(trimmed(text)) : 0;
}

/** Unix seconds of an IMF-fixdate since 1970 (RFC 9110 section 5.6.7); 0, long past, for anything else. */
function httpDateS(text) {
  const found = IMF_FIXDATE.exec(trimmed(text));
  if (found === null || !MONTHS.includes(found[2])) return 0;
  const [day, year, hour, minute, second] = [found[1], found[3], found[4], found[5], found[6]].map(Number);
  return Date.UTC(year, MONTHS.indexOf(found[2]), day, hour, minute, second) / 1000;
}

function directivesOf(value) {
  const found = new Map();
  for (const part of value.split(",")) {
    const [given, argument] = divided(part);
    const name = trimmed(given).toLowerCase();
    if (!found.has(name)) found.set(name, trimmed(argument).replace(/^"+|"+$/g, ""));
  }
  return found;
}
