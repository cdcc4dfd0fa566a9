"""The life of a query, step by step.  Start reading here.

receive → authenticate → limit → read → name → admit → look up → judge → fly → fetch → keep → deliver → account

The first three happen in the server (server/guard.py), the last when the answer has ended.  `find` answers queries met
before from memory; `near` reads, names and answers whatever memory and disk have, without waiting for anything; `far`
goes on from there to far tiers and origins.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec.structs import replace

from foretold import naming, policy
from foretold.answers import deliver, ready
from foretold.answers.answer import Answer, Hit
from foretold.answers.judging import Unusable, judged, judged_on_failure
from foretold.answers.workshop import Workshop
from foretold.batch_flying import MOST_TURNS, BatchFlying
from foretold.batches import Batches
from foretold.contract.manners import may_fall_back
from foretold.contract.status import CacheStatus
from foretold.errors import LeaderLost, OriginError, OriginReplaced
from foretold.flights.aftermath import monotonic_ms
from foretold.flights.flight import Ride
from foretold.flights.flying import Flying
from foretold.flights.lease import ALONE, Lease
from foretold.flights.table import Flights
from foretold.memo import Head, Memo, Named
from foretold.observe.counters import Counters
from foretold.outcome import How, Outcome
from foretold.passing import not_kept, observed, passed
from foretold.ports import Generations
from foretold.prepared import Batch, Prepared, Spare, Unmade
from foretold.projections.fold import NotAnAnswer
from foretold.routes import Routes
from foretold.scope import Scope
from foretold.tiers.doorkeeper import Doorkeeper
from foretold.tiers.keeping import Keeping
from foretold.tiers.order import Found, Tiers


class Node:
    def __init__(
        self,
        *,
        scope: Scope,
        routes: Routes,
        tiers: Tiers,
        keeping: Keeping,
        generations: Generations,
        counters: Counters,
        now_ms: Callable[[], int],
        only_observes: bool = False,
        lease: Lease = ALONE,
        monotonic_ms: Callable[[], int] = monotonic_ms,
    ):
        """A node that only observes asks an origin every time, and counts what it would have answered."""
        self.scope = scope
        self.routes = routes
        self.tiers = tiers
        self.keeping = keeping
        self.generations = generations
        self.counters = counters
        self.memo = Memo()
        self.flying = Flying(keeping, generations, lease=lease, now_ms=now_ms, monotonic_ms=monotonic_ms)
        self.doorkeeper = Doorkeeper(now_ms=now_ms)
        self.batches = Batches(tiers, generations, self.flying, now_ms=now_ms)
        self.batch_flying = BatchFlying(self.batches, self.flying, is_first_sight=self._is_first_sight)
        self.only_observes = only_observes
        self.workshop = Workshop(tiers)
        self.lease = lease
        self._now_ms = now_ms

    @property
    def flights(self) -> Flights:
        return self.flying.flights

    def find(self, head: Head, body: bytes) -> Hit | None:
        """The answer of a query met before whose record is in memory and good; None for everything else."""
        named = self.memo.named(head, body)
        if named is None or self.only_observes:
            return None
        now_ms = self._now_ms()
        held = self.tiers.in_memory(named.key, named.query.namespace, now_ms)
        if held is None:
            return None
        hit = ready.again(held, named, now_ms=now_ms, generations=self.generations.now())
        if hit is None:
            judged_now = self._hit(Found(held, self.tiers.memory.name, True), named)
            if not isinstance(judged_now, Hit):
                return None
            hit = judged_now
        if hit.is_due and self.flying.may_refresh(named):
            return None
        self.tiers.memory_counts.lookups += 1
        self.tiers.memory_counts.hits += 1
        return hit

    def near(self, head: Head, body: bytes, outcome: Outcome) -> Hit | Prepared:
        """The answer in memory or on disk, or all that was found out on the way.  Raises ForetoldError."""
        named = self.memo.named(head, body)
        looked = self._look(named) if named is not None else None
        if isinstance(looked, Hit) and not self.only_observes and not self._is_to_refresh(looked, named):
            return looked
        asked = head.dialect.read(head.request, body, head.controls)
        controls = head.controls.stricter(asked.controls)
        only = controls.only_if_cached
        route = self.routes.match(asked)
        outcome.operation, outcome.model, outcome.route = asked.operation, asked.model, route.name
        permit = policy.permit(asked, controls, route_stores=route.stores, route_collapses=route.collapses)
        if permit.is_pass:
            return Prepared(
                head, asked, route, CacheStatus(forwarded="bypass", detail=permit.detail), None, permit, only
            )

        if asked.inputs:
            batch = Batch(naming.each_named(head, asked, controls, route, self.scope))
            status = batch.status(permit.forwarded)
            prepared = Prepared(head, asked, route, status, None, permit, only, batch=batch)
            hit = self.batches.near(prepared, batch)
            if hit is not None and self.only_observes:
                return self._observed(prepared._replace(batch=None), hit, outcome)
            return hit or prepared
        if named is None:
            named = naming.named(head, asked, controls, route, self.scope)
            if permit.may_read:
                self.memo.keep_named(head, body, named)
                looked = self._look(named)
        status = named.status(permit.forwarded)
        prepared = Prepared(head, asked, route, status, named, permit, only)
        if isinstance(looked, Hit):
            return self._observed(prepared, looked, outcome) if self.only_observes else self._given(looked, prepared)
        if isinstance(looked, Unmade):
            return prepared._replace(found=looked.found)
        if looked is None:
            return prepared
        return prepared._replace(status=looked.told(status), spare=_spare(looked))

    async def far(self, prepared: Prepared, outcome: Outcome) -> Answer | Hit:
        """The answer of a query that was not near.

        Raises ForetoldError; a cancelled caller leaves its flight to those who wait.
        """
        for _ in range(MOST_TURNS):
            try:
                return await self._far(prepared, outcome)
            except OriginReplaced:  # before it was asked
                prepared = naming.anew(prepared, self.routes, self.scope)
        return await self._far(prepared, outcome)

    async def _far(self, prepared: Prepared, outcome: Outcome) -> Answer | Hit:
        asked, named = prepared.asked, prepared.named
        if prepared.batch is not None:
            return await self._far_all(prepared, prepared.batch, outcome)
        if prepared.refreshes:
            return await self._seen(prepared, outcome)
        if named is None:
            if prepared.is_only_if_cached:
                raise not_kept(outcome)
            return await passed(prepared, outcome)
        found = prepared.found
        if found is None and prepared.permit.may_read and self.tiers.has_far:
            found = await self.tiers.look_far(named.key, named.query.namespace, owner=named.namespaces.tenant)
        if found is not None:
            hit = await self._made(found, named)
            if isinstance(hit, Hit):
                if self.only_observes:
                    return await self._seen(self._observed(prepared, hit, outcome), outcome)
                self._given(hit, prepared).tell(outcome)
                return hit
            prepared = prepared._replace(status=hit.told(prepared.status), spare=_spare(hit))
        if prepared.is_only_if_cached:
            raise not_kept(outcome)
        if asked.method == "HEAD":
            return await passed(prepared._replace(status=CacheStatus(forwarded="bypass", detail="head")), outcome)
        return await self._flown(prepared, named, outcome)

    async def _far_all(self, prepared: Prepared, batch: Batch, outcome: Outcome) -> Answer | Hit:
        """The answer to several queries that one request asks, of records or an origin, or of both."""
        hit = await self.batches.found(prepared, batch)
        if hit is not None and self.only_observes:
            return await self._seen(self._observed(prepared, hit, outcome), outcome)
        if hit is None and prepared.is_only_if_cached:
            raise not_kept(outcome)
        answer = hit or await self.batch_flying.answer(prepared, batch, outcome, may_mix=not self.only_observes)
        if isinstance(answer, Hit):
            answer.tell(outcome)
        return answer

    def change(self, *, scope: Scope, routes: Routes, only_observes: bool) -> None:
        """From the next request on these decide: nothing that was remembered by the old ones is known any more."""
        self.scope, self.routes, self.only_observes = scope, routes, only_observes
        self.memo.clear()
        self.flights.forget_endings()

    def account(self, outcome: Outcome) -> None:
        """The end of a query, exactly once; of a hit that went out whole at once, `counters.account_hit` is it."""
        outcome.took_ms = time.monotonic() * 1000 - outcome.began_ms
        self.counters.account(outcome)

    async def forget(self, key: str) -> tuple[str, ...]:
        """Purges one record in every tier; what is in the air for its key is not kept.

        The tiers that may still have it, because nothing here says whose it is.  Raises StoreError.
        """
        self.flights.forget(key)
        return await self.keeping.forget(key)

    async def open(self) -> None:
        """Begins what goes on beside the queries: flights of all processes, purges from elsewhere."""
        await self.lease.open(self.forget)
        await self.generations.open()

    async def close(self) -> None:
        await self.flights.close()
        # What landed just now is given to others until they can find it themselves.
        await self.keeping.close()
        await self.lease.close()
        await self.generations.close()
        await self.tiers.close()
        for route in self.routes:
            await route.origin.close()

    def _look(self, named: Named) -> Hit | Unmade | Spare | Unusable | None:
        """What memory and disk have of a query, if anything."""
        found = self.tiers.look_near(named.key, named.query.namespace, owner=named.namespaces.tenant)
        return None if found is None else self._hit(found, named)

    async def _made(self, found: Found, named: Named) -> Hit | Spare | Unusable:
        """The answer of a record, however long it takes to make."""
        try:
            while isinstance(hit := self._hit(found, named), Unmade):
                await self.workshop.make(found.held, named)
        except NotAnAnswer:
            self.tiers.corrupt += 1
            return Unusable("uri-miss")
        return hit

    def _hit(self, found: Found, named: Named) -> Hit | Unmade | Spare | Unusable:
        """The answer of a record; one that can't be given in the shape asked for is counted as corrupt."""
        now_ms = self._now_ms()
        generations = self.generations.now()
        again = ready.again(found.held, named, now_ms=now_ms, generations=generations)
        if again is not None:
            return again
        verdict = judged(found.held, named, now_ms=now_ms, generations=generations)
        if isinstance(verdict, Unusable):
            return Spare(found) if verdict.may_stand_in else verdict
        if not self.workshop.has(found.held, named):
            return Unmade(found)
        try:
            return ready.hit(found, verdict, named, tiers=self.tiers, now_ms=now_ms)
        except NotAnAnswer:
            self.tiers.corrupt += 1
            return Unusable("uri-miss")

    async def _flown(self, prepared: Prepared, named: Named, outcome: Outcome) -> Answer | Hit:
        """The answer of a flight, here or in another process, or of a stale record that stands in for it."""
        may_join = prepared.permit.may_join
        # Where a record may stand in, it does so before the route's other origins are asked.
        asks_others = prepared.spare is None or prepared.route.first is None or self.only_observes
        alone = False
        is_first_sight: bool | None = None
        for turns_left in range(MOST_TURNS, 0, -1):
            alone = alone or turns_left == 1
            ride = self.flying.join(named, asks_others=asks_others) if may_join and turns_left > 1 else None
            is_joined = ride is not None
            if ride is None:
                turn = ALONE if alone else self.flying.turn(named, asks_others=asks_others)
                kept = self._kept_meanwhile(named) if turn.is_taken and may_join else None
                if kept is not None:
                    turn.give_back()
                    hit = await self._made(kept, named)
                    if not isinstance(hit, Hit):
                        continue
                    if self.only_observes:
                        return await self._seen(self._observed(prepared, hit, outcome), outcome)
                    self._given(hit, prepared).tell(outcome)
                    return hit
                if is_first_sight is None:
                    is_first_sight = self._is_first_sight(named)
                ride, is_joined = self.flying.start(
                    prepared.head,
                    prepared.asked,
                    named,
                    asks_others=asks_others,
                    turn=turn if may_join or turn.is_taken else ALONE,
                    is_first_sight=is_first_sight,
                )
            status = prepared.status
            if is_joined:
                status = replace(status, collapsed=True, detail="backoff" if ride.is_echo else status.detail)
            elif is_first_sight:
                status = replace(status, detail=status.detail or "first-sight")
            try:
                return await self._aboard(ride, prepared._replace(status=status), named, outcome)
            except LeaderLost as lost:
                alone = alone or lost.alone  # nothing of it went out yet
        raise AssertionError("the last turn is a flight of our own")

    async def _aboard(self, ride: Ride, prepared: Prepared, named: Named, outcome: Outcome) -> Answer | Hit:
        """The answer of a flight that was boarded, or of a stale record that stands in for it."""
        status, spare = prepared.status, prepared.spare
        try:
            hit = await self._standing_in(ride, spare, named) if spare is not None else None
        except BaseException:
            await ride.leave()
            raise
        if self.only_observes and (hit is not None or status.collapsed):
            seen = self._observed(prepared, hit, outcome)
            if not status.collapsed:
                return await self._ride(ride, named, seen.status, outcome)
            await ride.leave()
            return await passed(seen, outcome)
        if hit is not None:
            await ride.leave()
            hit.tell(outcome)
            outcome.detail = "stale-if-error"
            return hit
        return await self._ride(ride, named, status, outcome)

    def _kept_meanwhile(self, named: Named) -> Found | None:
        """A good record that another process has put into a near tier since we looked."""
        found = self.tiers.look_again(named.key, named.query.namespace, owner=named.namespaces.tenant)
        return found if found is not None and isinstance(self._hit(found, named), (Hit, Unmade)) else None

    def _is_first_sight(self, named: Named) -> bool:
        """Whether an answer won't be kept because nobody asked for it before, nor is one kept that it would replace."""
        if not named.route.waits_for_second or self.tiers.in_memory(named.key, named.query.namespace) is not None:
            return False
        return not self.doorkeeper.met(named.key)

    async def _standing_in(self, ride: Ride, spare: Found, named: Named) -> Hit | None:
        """The answer of a stale record, if the flight brings none and the record may be given now."""
        try:
            incoming = await ride.head()
            if not incoming.is_fallback and not may_fall_back(failure=None, status=incoming.status, once=False):
                return None
        except LeaderLost:
            raise  # the flight goes on elsewhere
        except OriginError:
            pass  # told by the flight to all who get no record instead
        try:
            while ride.flight.landing.is_open():
                now_ms = self._now_ms()
                verdict = judged_on_failure(spare.held, named, now_ms=now_ms, generations=self.generations.now())
                if verdict is None:
                    return None
                if self.workshop.has(spare.held, named):
                    return ready.instead(spare, verdict, named, tiers=self.tiers, now_ms=now_ms)
                await self.workshop.make(spare.held, named)
        except NotAnAnswer:
            self.tiers.corrupt += 1
        return None

    def _is_to_refresh(self, hit: Hit, named: Named | None) -> bool:
        return hit.is_due and named is not None and self.flying.may_refresh(named)

    def _given(self, hit: Hit, prepared: Prepared) -> Hit:
        """A hit; if it is stale, a new record is fetched behind its caller's back."""
        named = prepared.named
        if named is not None and self._is_to_refresh(hit, named):
            ride = self.flying.refresh(prepared.head, prepared.asked, named)
            ride.flight.left(ride)
        return hit

    def _observed(self, prepared: Prepared, hit: Hit | None, outcome: Outcome) -> Prepared:
        refreshes = hit is not None and self._is_to_refresh(hit, prepared.named)
        return observed(prepared, hit, outcome, refreshes=refreshes)

    async def _seen(self, prepared: Prepared, outcome: Outcome) -> Answer:
        """The origin's answer to a query that would have been a hit."""
        if prepared.is_only_if_cached:
            raise not_kept(outcome)
        named = prepared.named
        if named is None or not self.flying.may_refresh(named):
            return await passed(prepared, outcome)
        ride = self.flying.refresh(prepared.head, prepared.asked, named, asks_others=True)
        answer = await self._ride(ride, named, prepared.status, outcome)
        outcome.how = How.PASS
        return answer

    async def _ride(self, ride: Ride, named: Named, status: CacheStatus, outcome: Outcome) -> Answer:
        outcome.how = How.COLLAPSED if status.collapsed else How.MISS
        try:
            return await deliver.from_ride(ride, named, outcome, status=status)
        except BaseException:
            await ride.leave()
            raise


def _spare(looked: Spare | Unusable) -> Found | None:
    return looked.found if isinstance(looked, Spare) else None
