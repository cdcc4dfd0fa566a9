/** How a flight can end, and what that means for those who wait and those who come later (rule L1). */

export const HIT_FOR_MISS_S = 5;
export const BACKOFF_S = 1;

/** What callers get who ride along. */
export const ATTACHED = Object.freeze({ ANSWER: "answer", RETRY: "retry", ERROR: "error", BROKEN: "broken" });

/** What callers get who come after. */
export const LATER = Object.freeze({ HIT: "hit", ALONE: "alone", SAME: "same", FLY: "fly" });

/**
 * The ending of a flight.
 *
 * `status` is null if no answer came; `clean` says that its end was proved; `sentAny` that bytes of it went out;
 * `fallback` that another origin answered, because the first one failed.
 */
export function ending({ status, clean, storable, sentAny, retried, fallback = false }) {
  if (status === null) return ends(ATTACHED.ERROR, LATER.SAME, BACKOFF_S);
  if (!clean) {
    if (sentAny) return ends(ATTACHED.BROKEN, LATER.FLY);
    return ends(retried ? ATTACHED.ERROR : ATTACHED.RETRY, LATER.FLY);
  }
  if (fallback || status === 429 || status >= 500) return ends(ATTACHED.ANSWER, LATER.SAME, BACKOFF_S);
  if (status >= 400) return ends(ATTACHED.ANSWER, LATER.FLY);
  if (storable) return ends(ATTACHED.ANSWER, LATER.HIT);
  return ends(ATTACHED.ANSWER, LATER.ALONE, HIT_FOR_MISS_S);
}

function ends(attached, later, laterS = 0) {
  return { attached, later, laterS };
}
