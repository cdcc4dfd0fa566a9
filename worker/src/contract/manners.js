/** How we treat upstreams: retries, fallback, and what an edge keeps of a node's answers (rule U1). */

import { trimmed } from "./query.js";
import { NODE } from "./status.js";

export const MAX_RETRIES = 2;
export const LONGEST_WAIT_S = 5;

const SECONDS = /^[0-9]{1,9}$/;
const MEMBER = /(?:[^,"]|"(?:[^"\\]|\\.)*")+/g;
const PARAMETER = /(?:[^;"]|"(?:[^"\\]|\\.)*")+/g;

/** How an origin failed, where it gave no status. */
export const FAILURE = Object.freeze({ CONNECT: "connect", TIMEOUT: "timeout", CUT: "cut" });

/**
 * How long to wait before asking the same origin again; null: don't.
 *
 * `chance` in [0, 1) spreads the waits.  Never after a time-out or a 500: the origin may have done the work.  With
 * `once`, asking may have side effects: only what was never sent is tried again.
 */
export function retryAfterS({ failure = null, status = null, retryAfter = null, sentAny, retriesDone, chance, once }) {
  if (retriesDone >= MAX_RETRIES || sentAny) return null;
  const jittered = 0.1 * 2 ** retriesDone * (0.5 + chance);
  if (failure === FAILURE.CONNECT) return jittered;
  if (once) return null;
  if (failure !== null) return failure === FAILURE.CUT && retriesDone === 0 ? jittered : null;
  const said = trimmed(retryAfter ?? "");
  if ((status === 429 || status === 503) && SECONDS.test(said)) {
    return Number(said) <= LONGEST_WAIT_S ? Number(said) + jittered : null;
  }
  return status === 502 || status === 503 || status === 504 ? jittered : null;
}

/** Whether the next origin, or a stale record, may answer instead; never what may be asked only `once`. */
export function mayFallBack({ failure = null, status = null, once }) {
  if (once) return false;
  return failure !== null || status === 429 || (status !== null && status >= 500);
}

/** Whether an edge keeps an answer that came through a node: only what the node itself vouches for. */
export function edgeMayStore(cacheStatus) {
  const ours = membersOf(cacheStatus ?? "").filter(([cache]) => cache === NODE);
  if (ours.length === 0) return true;
  const parameters = ours.at(-1).slice(1);
  if (parameters.includes("detail=fallback") || parameters.includes("detail=other-revision")) return false;
  return ["hit", "stored", "collapsed"].some((word) => parameters.includes(word));
}

function membersOf(cacheStatus) {
  const members = cacheStatus.match(MEMBER) ?? [];
  return members.map((member) => (member.match(PARAMETER) ?? []).map(trimmed));
}
