/**
 * The life of a query, step by step, as in src/foretold/node.py.  Start reading here.
 *
 * receive → authenticate → limit → read → name → admit → look up → judge → fly → fetch → keep → deliver → account
 *
 * The first three happen in server/, the last when the answer has ended.  `find` answers queries met before from
 * memory; every other look-up is waited for, so `answer` is one way where the node has two.  `visit` is what belongs to
 * one request: `later` takes what may go on after the answer, `signal` says that the caller left.
 */

import { stricter } from "./contract/controls.js";
import { mayFallBack } from "./contract/manners.js";
import { VERDICT } from "./contract/freshness.js";
import * as deliver from "./deliver.js";
import { NotKept, OriginError } from "./errors.js";
import { FlightLost } from "./flight.js";
import { Flying } from "./flying.js";
import { forwarded } from "./forwarding.js";
import { judgedOf, judgedOnFailure } from "./judging.js";
import { Memo } from "./memo.js";
import { named as nameOf } from "./naming.js";
import { Counters } from "./observe/counters.js";
import { HOW } from "./outcome.js";
import * as policy from "./policy.js";
import { NotAnAnswer } from "./projections/fold.js";
import * as ready from "./ready.js";
import { Routes } from "./routes.js";

export class Node {
  #nowMs;

  #memo = new Memo();

  /** `catalogues` are those of the nodes that routes ask; `metrics` and `logs`, or null, are told of every outcome. */
  constructor({ scope, routes, tiers, keeping, generations, counters, flights, refreshing, nowMs, ...more }) {
    Object.assign(this, { scope, routes, tiers, keeping, generations, counters });
    Object.assign(this, { catalogues: [], metrics: null, logs: null, ...more });
    counters.observers.push(...[this.metrics, this.logs].filter((observer) => observer !== null));
    this.flying = new Flying(keeping, generations, { flights, refreshing, nowMs });
    this.#nowMs = nowMs;
  }

  get flights() {
    return this.flying.flights;
  }

  get memoBytes() {
    return this.#memo.heldBytes;
  }

  get memoLimitBytes() {
    return this.#memo.limitBytes;
  }

  /** The same tiers, flights and generations behind one route alone: what it answers is not counted among queries. */
  withRoute(route) {
    const { scope, tiers, keeping, generations } = this;
    const parts = { scope, tiers, keeping, generations, flights: this.flights, refreshing: this.flying.refreshing };
    return new Node({ ...parts, routes: new Routes([route]), counters: new Counters(), nowMs: this.#nowMs });
  }

  /** The accepted head of a request that was met before. */
  headOf(place) {
    return this.#memo.head(place);
  }

  keepHead(place, head) {
    this.#memo.keepHead(place, head);
  }

  /** The answer of a query met before whose record is in memory and fresh, without waiting; null for all else. */
  find(head, body, outcome) {
    const named = this.#memo.named(head, body);
    if (named === undefined || !named.route.stillHas(named.query.revision, named.query.model)) return null;
    const held = this.tiers.inMemory(named.key, named.query.namespace);
    const generations = held === null ? null : this.generations.now(Object.keys(held.tags));
    if (generations === null || held.kind !== "answer") return null;
    const { why, judged } = judgedOf(held, named, { nowMs: this.#nowMs(), generations });
    if (why !== null || judged.verdict !== VERDICT.FRESH) return null;
    const hit = ready.again({ held, tier: this.tiers.memory.name }, judged, named);
    if (hit === null) return null;
    this.tiers.memoryCounts.lookups += 1;
    this.tiers.memoryCounts.hits += 1;
    Object.assign(outcome, { operation: named.query.operation, model: named.query.model, route: named.route.name });
    return told(hit, outcome);
  }

  /** The answer of a query; fills its outcome in.  Throws ForetoldError. */
  async answer(head, body, { outcome, visit }) {
    const asked = await head.dialect.read(head, body);
    const controls = stricter(head.controls, asked.controls);
    const route = this.routes.match(asked);
    Object.assign(outcome, { operation: asked.operation, model: asked.model, route: route.name });
    const permit = policy.permit(asked, controls, { routeStores: route.stores });
    const prepared = { head, asked, route, permit, outcome, visit };
    if (policy.isPass(permit)) {
      if (controls.onlyIfCached) throw notKept(outcome);
      return this.#pass(prepared, { forwarded: "bypass", key: null, detail: permit.detail });
    }

    const revision = await route.revisionOf(asked.model, visit);
    if (revision === null) {
      if (controls.onlyIfCached) throw notKept(outcome);
      return this.#pass(prepared, { forwarded: "bypass", key: null, detail: "not-in-catalogue" });
    }
    const named = await nameOf(head, asked, { controls, route, revision, scope: this.scope });
    if (permit.mayRead) this.#memo.keepNamed(head, body, named);
    let status = { forwarded: permit.forwarded, key: route.shared ? null : named.key, detail: permit.detail };
    const looked = permit.mayRead ? await this.#look(named, visit) : NOTHING;
    if (looked.hit !== null) return told(looked.hit, outcome);
    if (looked.why !== null) {
      status = { ...status, forwarded: looked.why.forwarded, detail: looked.why.detail ?? status.detail };
    }
    if (controls.onlyIfCached) throw notKept(outcome);
    if (asked.method === "HEAD") return this.#pass(prepared, { forwarded: "bypass", key: null, detail: "head" });
    return this.#fly({ ...prepared, named, status, spare: looked.spare, seen: looked.seen });
  }

  /** The end of a query, exactly once. */
  account(outcome) {
    outcome.tookMs = Date.now() - outcome.beganMs;
    this.counters.account(outcome);
  }

  /**
   * What the tiers have of a query: its `hit`; else `why` what was found can't answer, the `spare` record that may
   * stand in if the origin fails, and the record that was `seen` in memory.
   */
  async #look(named, visit) {
    const { key, query } = named;
    const near = this.tiers.lookNear(key, query.namespace);
    const first = near === null ? NOTHING : await this.#tried(near, named, visit);
    if (first.hit !== null) return first;
    // Asked for now, so that it is here when a record is: both come from KV.
    const reading = this.generations.of(named.tags, visit);
    const found = await this.tiers.lookFar(key, query.namespace, {
      isGood: async ({ held }) => (await this.#judged(held, named, visit)).why === null,
      later: visit.later,
    });
    await reading;
    const second = found === null ? NOTHING : await this.#tried(found, named, visit);
    if (second.hit !== null) return second;
    return { hit: null, why: second.why ?? first.why, spare: second.spare ?? first.spare, seen: near?.held ?? null };
  }

  async #tried(found, named, visit) {
    const judgment = await this.#judged(found.held, named, visit);
    if (judgment.why !== null) {
      return { ...NOTHING, why: judgment.why, spare: judgment.mayReplaceError ? found : null };
    }
    const detail = found.held.kind === "negative" ? "negative" : named.detail;
    const hit = await this.#ready(found, judgment.judged, { named, detail });
    if (hit === null) return { ...NOTHING, why: { forwarded: "uri-miss", detail: null } };
    if (judgment.isBehind && this.flying.mayRefresh(named)) visit.later(this.#refresh(named, visit));
    return { ...NOTHING, hit };
  }

  async #judged(held, named, visit) {
    const generations = await this.generations.of(Object.keys(held.tags), visit);
    return judgedOf(held, named, { nowMs: this.#nowMs(), generations });
  }

  /** The answer of a record; null, and counted as corrupt, if it can't be given in the shape asked for. */
  async #ready(found, judged, { named, detail }) {
    try {
      return await ready.hit(found, judged, named, { detail });
    } catch (error) {
      if (!(error instanceof NotAnAnswer || error instanceof TypeError)) throw error;
      this.tiers.corrupt += 1;
      return null;
    }
  }

  async #fly(prepared) {
    const { named, permit, status, spare, outcome, visit, seen } = prepared;
    const table = await this.generations.of(named.tags, visit);
    // Where a record may stand in, it does so before the route's other origins are asked.
    const flown = { ...prepared, asksOthers: spare === null || named.route.first === named.route.origin };
    // Nothing waits from here to the start of a flight, so that of two callers one flies and the other rides.
    const ride = permit.mayJoin ? this.flying.join(named, flown) : null;
    if (ride === null) {
      // Look again: the flight we just missed may have landed meanwhile.
      const held = permit.mayRead ? this.tiers.inMemory(named.key, named.query.namespace) : null;
      if (held !== null && held !== seen) {
        const { hit } = await this.#tried({ held, tier: this.tiers.memory.name }, named, visit);
        if (hit !== null) return told(hit, outcome);
      }
      return this.#ride(this.flying.start(flown, table), prepared);
    }
    const detail = ride.isEcho ? "backoff" : status.detail;
    try {
      return await this.#ride(ride, { ...prepared, status: { ...status, detail, collapsed: true } });
    } catch (error) {
      if (ride.isEcho && error instanceof OriginError) outcome.isEcho = true;
      if (!(error instanceof FlightLost)) throw error;
      // Nothing was told yet, so whoever waited for it flies alone.
      this.flights.lost(ride.flight);
      outcome.how = HOW.MISS;
      return this.#ride(this.flying.start(flown, table), prepared);
    }
  }

  /** A rider's answer; a stale record's instead, where it may stand in for an origin that failed. */
  async #ride(ride, { named, status, outcome, spare, visit }) {
    visit.signal.addEventListener("abort", () => ride.leave(), { once: true });
    outcome.how = status.collapsed ? HOW.COLLAPSED : HOW.MISS;
    try {
      const stale = spare === null ? null : await this.#standingIn(ride, spare, { named, visit });
      if (stale === null) return await deliver.fromRide(ride, named, outcome, { status });
      ride.leave();
      return told(stale, outcome);
    } catch (error) {
      ride.leave();
      throw error;
    }
  }

  /** The answer of a stale record, if the flight brings none and the record may be given now. */
  async #standingIn(ride, spare, { named, visit }) {
    try {
      const { status, isFallback } = await ride.head();
      if (!isFallback && !mayFallBack({ status, once: false })) return null;
    } catch (error) {
      // Told by the flight to all who get no record instead; a lost one may be flown anew.
      if (!(error instanceof OriginError) || error instanceof FlightLost) throw error;
    }
    if (!ride.flight.landing.isOpen()) return null;
    const generations = await this.generations.of(Object.keys(spare.held.tags), visit);
    const judged = judgedOnFailure(spare.held, named, { nowMs: this.#nowMs(), generations });
    return judged === null ? null : this.#ready(spare, judged, { named, detail: "stale-if-error" });
  }

  /** Fetches a new answer behind one that was stale: one caller of all in half a minute. */
  async #refresh(named, visit) {
    const { key, query, refresh } = named;
    if (!(await this.flying.refreshing.take(query.namespace, key))) return;
    const isGood = async ({ held }) => {
      const { why, judged } = await this.#judged(held, named, visit);
      return why === null && judged.verdict === VERDICT.FRESH;
    };
    const found = await this.tiers.lookFar(key, query.namespace, { isGood, later: visit.later });
    if (found !== null && (await isGood(found))) return;
    const table = await this.generations.of(named.tags, visit);
    this.flying.start({ ...refresh, named, visit, asksOthers: false, finishesAlone: true }, table).leave();
  }

  async #pass({ head, asked, route, outcome, visit }, status) {
    Object.assign(outcome, { how: HOW.PASS, detail: status.detail });
    const incoming = await route.origin.fetch(asked, forwarded(head, asked, route), { signal: visit.signal });
    return deliver.passed(incoming, asked, outcome, { status });
  }
}

const NOTHING = Object.freeze({ hit: null, why: null, spare: null, seen: null });

/** A hit as an answer, its account told. */
function told(hit, outcome) {
  Object.assign(outcome, { how: hit.how, tier: hit.tier, originMs: hit.originMs, status: hit.status });
  return { status: hit.status, headers: hit.headers, body: hit.body, outcome };
}

function notKept(outcome) {
  Object.assign(outcome, { how: HOW.MISS, detail: "only-if-cached" });
  return new NotKept("only-if-cached, and no usable answer is kept for this query");
}
