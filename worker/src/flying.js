/** The flights that queries start: which origin is asked, what is known at take-off, what lands where (rules L1, F1). */

import { NEVER_PURGED } from "./contract/generations.js";
import { askingForUsage, forwarded } from "./forwarding.js";
import * as policy from "./policy.js";
import { Runway } from "./runway.js";

const NO_BODY = new Uint8Array(0);
// Roughly what is known of a query at take-off.
const DEPARTURE_BYTES = 2048;

export class Flying {
  #keeping;
  #generations;
  #nowMs;

  constructor(keeping, generations, { flights, refreshing, nowMs }) {
    this.flights = flights;
    this.refreshing = refreshing;
    this.#keeping = keeping;
    this.#generations = generations;
    this.#nowMs = nowMs;
  }

  /** A seat in a flight for this query that is in the air, or that brought an error a moment ago. */
  join(named, { asksOthers }) {
    if (!named.route.collapses) return null;
    return this.flights.join(named.key, { usage: named.usage, asksOthers });
  }

  /**
   * A seat in a new flight; `table` are the generations of this moment.
   *
   * `asksOthers` says whether the route's further origins are asked if the first fails.
   */
  start({ head, asked, named, visit, asksOthers, finishesAlone = named.route.finishesAlone }, table) {
    const { route } = named;
    const origin = asksOthers ? route.origin : route.first;
    const [question, tellsUsage] = askingForUsage(asked, route);
    // A node that has given the model another revision says so: what it answers then belongs under no key of ours.
    const beside = { ...forwarded(head, question, route), revision: route.asksNode ? named.query.revision : null };
    const departure = {
      // What stays of a flight shall not hold its query's body.
      asked: { ...question, body: NO_BODY },
      named: { ...named, refresh: null },
      lifetimes: policy.lifetimes(route.lifetimes, named.controls),
      tags: Object.fromEntries(named.tags.map((tag) => [tag, table[tag] ?? NEVER_PURGED])),
      askedMs: this.#nowMs(),
      askedForUsage: tellsUsage,
    };
    const landing = new Runway(departure, this.#keeping, { generations: this.#generations, nowMs: this.#nowMs });
    return this.flights.start(named.key, (signal) => origin.fetch(question, beside, { signal }), {
      landing,
      finishesAlone,
      tellsUsage,
      asksOthers: asksOthers || route.first === route.origin,
      isShared: route.collapses,
      ownBytes: DEPARTURE_BYTES,
      later: visit.later,
    });
  }

  /** Whether a query that is given a stale record may have a new one fetched behind its back, now. */
  mayRefresh(named) {
    const { key, controls, refresh } = named;
    const isAsked = !controls.onlyIfCached && refresh.asked.method !== "HEAD";
    return isAsked && !this.flights.flies(key) && !this.flights.hasMark(key);
  }
}
