/** Counts of all outcomes of this isolate: received = hit + stale + collapsed + miss + pass + error, once all ended. */

import { ENDED, HOW } from "../outcome.js";

export class Counters {
  received = 0;
  how = Object.fromEntries(Object.values(HOW).map((how) => [how, 0]));
  tookMs = Object.fromEntries(Object.values(HOW).map((how) => [how, 0]));
  ended = Object.fromEntries(Object.values(ENDED).map((ended) => [ended, 0]));
  savedMs = 0;
  /** Told of every outcome: `observe(outcome, { later })`. */
  observers = [];

  receive() {
    this.received += 1;
  }

  account(outcome) {
    this.how[outcome.how] += 1;
    this.tookMs[outcome.how] += outcome.tookMs;
    this.ended[outcome.ended] += 1;
    if (outcome.how === HOW.HIT || outcome.how === HOW.STALE) this.savedMs += outcome.originMs;
    for (const observer of this.observers) observer.observe(outcome, { later: outcome.later });
  }
}
