/** What time, generations and the caller's own wishes say of a record that was found. */

import { AHEAD_ALLOWED_MS, VERDICT, accepts, judge, mayReplaceError, mayRevalidateBehind } from "./contract/freshness.js";
import { isAlive } from "./contract/generations.js";
import { lifetimesOf } from "./held.js";

/**
 * Either `why` is null and `judged` says how old the record is, or `why` tells Cache-Status why it can't answer.
 *
 * `isBehind`: it answers although it is stale, and a new one is to be fetched behind it.  `mayReplaceError`: if the
 * origin fails, it may answer after all.
 */
export function judgedOf(held, named, { nowMs, generations }) {
  if (!isAlive(held.tags, generations)) return unusable("uri-miss");
  if (held.kind === "answer" && named.usage && !held.has.includes("usage")) return unusable("uri-miss", "lacks-usage");
  const lifetimes = lifetimesOf(held);
  const judged = judge(held.made_ms, lifetimes, nowMs);
  if (accepts(judged, named.controls)) return { why: null, judged, isBehind: false };
  if (judged.verdict === VERDICT.FRESH) return unusable("request");
  if (judged.verdict === VERDICT.DEAD) return unusable("uri-miss");
  // Nobody knows how old a record from a clock ahead of ours is.
  if (held.made_ms - nowMs > AHEAD_ALLOWED_MS || !leavesItToUs(judged, named.controls)) return unusable("stale");
  if (mayRevalidateBehind(judged, lifetimes)) return { why: null, judged, isBehind: true };
  return { ...unusable("stale"), mayReplaceError: mayReplaceError(judged, lifetimes) };
}

/** How old a record is that may be given instead of an origin's failure; null if it may not. */
export function judgedOnFailure(held, named, { nowMs, generations }) {
  const { why, judged, mayReplaceError: mayStandIn } = judgedOf(held, named, { nowMs, generations });
  if (why === null) return judged;
  return mayStandIn ? judge(held.made_ms, lifetimesOf(held), nowMs) : null;
}

/** Whether a request says nothing against a record that is so stale. */
function leavesItToUs(judged, { noCache, maxAgeS, minFreshS, maxStaleS }) {
  if (noCache || maxAgeS !== null || minFreshS > 0) return false;
  return maxStaleS === null || -judged.ttlS <= maxStaleS;
}

function unusable(forwarded, detail = null) {
  return { why: { forwarded, detail }, judged: null, isBehind: false, mayReplaceError: false };
}
