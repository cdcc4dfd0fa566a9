/** What time, generations and the caller's own wishes say of a record that was found. */

import { VERDICT, accepts, judge, mayReplaceError, mayRevalidateBehind } from "./contract/freshness.js";
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
  const wishes = named.controls;
  if (accepts(judged, wishes)) return { why: null, judged, isBehind: false };
  const takesStale = wishes.minFreshS === 0 && (wishes.maxAgeS === null || judged.ageS <= wishes.maxAgeS);
  if (takesStale && mayRevalidateBehind(judged, lifetimes)) return { why: null, judged, isBehind: true };
  if (judged.verdict === VERDICT.FRESH) return unusable("request");
  if (judged.verdict === VERDICT.DEAD) return unusable("uri-miss");
  return { ...unusable("stale"), judged, mayReplaceError: takesStale && mayReplaceError(judged, lifetimes) };
}

function unusable(forwarded, detail = null) {
  return { why: { forwarded, detail }, judged: null, isBehind: false, mayReplaceError: false };
}
