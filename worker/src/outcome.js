/** The account of one query (rule S3): exactly one per request for a prediction. */

export const HOW = Object.freeze({
  HIT: "hit", STALE: "stale", COLLAPSED: "collapsed", MISS: "miss", PASS: "pass", ERROR: "error",
});

/** WHOLE: all of it went out. CUT: the origin broke off. GONE: the caller left. ERROR: an error was told instead. */
export const ENDED = Object.freeze({ WHOLE: "whole", CUT: "cut", GONE: "gone", ERROR: "error" });

/** `later` takes what may go on after the query's answer. */
export function outcome(beganMs, later) {
  return {
    beganMs,
    later,
    tookMs: 0,
    how: HOW.ERROR,
    ended: ENDED.ERROR,
    operation: "",
    model: "",
    route: "",
    tier: "",
    status: 0,
    detail: null,
    isEcho: false,
    stored: false,
    originMs: 0,
    bodyBytes: 0,
  };
}
