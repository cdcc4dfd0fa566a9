"""The life of a query, step by step.  Start reading here.

receive → authenticate → limit → read → name → admit → look up → judge → fly → fetch → keep → deliver → account

The first three happen in the server (server/guard.py), the last when the answer has ended.  `find` answers queries met
before from memory; `near` reads, names and answers whatever memory and disk have, without waiting for anything; `far`
goes on from there to far tiers and origins.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from foretold import deliver, naming, policy, ready
from foretold.answer import Answer, Hit
from foretold.contract.generations import NEVER_PURGED, caller_tag, implicit_tags
from foretold.contract.status import CacheStatus
from foretold.doorkeeper import Doorkeeper
from foretold.errors import LeaderLost, NotKept
from foretold.flight import Flights, Ride
from foretold.forwarding import asking_for_usage, forwarded
from foretold.judging import Unusable, judged
from foretold.keeping import Keeping
from foretold.landing import Departure
from foretold.lease import ALONE, Lease, Turn
from foretold.memo import Head, Memo, Named
from foretold.observe.counters import Counters
from foretold.outcome import How, Outcome
from foretold.policy import Permit
from foretold.ports import Asked, Generations
from foretold.projections.fold import NotAnAnswer
from foretold.routes import Route, Routes
from foretold.runway import Runway
from foretold.scope import Scope
from foretold.tiers import Found, Tiers
from foretold.workshop import Workshop

# How often a query takes another turn when the process that flew for it is gone, before it flies by itself.
MOST_TURNS = 4


class Prepared(NamedTuple):
    """A query that was read and not answered near; `named` is None where it passes, `found` a record to be made ready."""

    head: Head
    asked: Asked
    route: Route
    status: CacheStatus
    named: Named | None
    permit: Permit
    is_only_if_cached: bool
    found: Found | None = None


class Unmade(NamedTuple):
    """A record that can answer, once its answer was made off the event loop."""

    found: Found

    def told(self, status: CacheStatus) -> CacheStatus:
        return status


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
    ):
        """A node that only observes asks an origin every time, and counts what it would have answered."""
        self.scope = scope
        self.routes = routes
        self.tiers = tiers
        self.keeping = keeping
        self.generations = generations
        self.counters = counters
        self.memo = Memo()
        self.flights = Flights()
        self.doorkeeper = Doorkeeper(now_ms=now_ms)
        self.only_observes = only_observes
        self.workshop = Workshop(tiers)
        self.lease = lease
        self._now_ms = now_ms

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
        self.tiers.memory_counts.lookups += 1
        self.tiers.memory_counts.hits += 1
        return hit

    def near(self, head: Head, body: bytes, outcome: Outcome) -> Hit | Prepared:
        """The answer in memory or on disk, or all that was found out on the way.  Raises ForetoldError."""
        named = self.memo.named(head, body)
        looked = self._look(named) if named is not None else None
        if isinstance(looked, Hit) and not self.only_observes:
            return looked
        asked = head.dialect.read(head.request, body, head.controls)
        controls = head.controls.stricter(asked.controls)
        only = controls.only_if_cached
        route = self.routes.match(asked)
        outcome.operation, outcome.model, outcome.route = asked.operation, asked.model, route.name
        permit = policy.permit(asked, controls, route_stores=route.stores)
        if permit.is_pass:
            return Prepared(
                head, asked, route, CacheStatus(forwarded="bypass", detail=permit.detail), None, permit, only
            )

        if named is None:
            named = naming.named(head, asked, controls, route, self.scope)
            if permit.may_read:
                self.memo.keep_named(head, body, named)
                looked = self._look(named)
        status = CacheStatus(forwarded=permit.forwarded, key=None if route.shared else named.key, detail=permit.detail)
        prepared = Prepared(head, asked, route, status, named, permit, only)
        if isinstance(looked, Hit):
            return self._observed(prepared, looked, outcome) if self.only_observes else looked
        if isinstance(looked, Unmade):
            return prepared._replace(found=looked.found)
        return prepared if looked is None else prepared._replace(status=looked.told(status))

    async def far(self, prepared: Prepared, outcome: Outcome) -> Answer | Hit:
        """The answer of a query that was not near.

        Raises ForetoldError; a cancelled caller leaves its flight to those who wait.
        """
        asked, named, status = prepared.asked, prepared.named, prepared.status
        if named is None:
            if prepared.is_only_if_cached:
                raise self._not_kept(outcome)
            return await self._pass(prepared, outcome)
        found = prepared.found
        if found is None and prepared.permit.may_read and self.tiers.has_far:
            found = await self.tiers.look_far(named.key, named.query.namespace, owner=named.namespaces.tenant)
        if found is not None:
            hit = await self._made(found, named)
            if isinstance(hit, Hit) and self.only_observes:
                return await self._pass(self._observed(prepared, hit, outcome), outcome)
            if isinstance(hit, Hit):
                hit.tell(outcome)
                return hit
            status = hit.told(status)
        if prepared.is_only_if_cached:
            raise self._not_kept(outcome)
        if asked.method == "HEAD":
            return await self._pass(prepared._replace(status=CacheStatus(forwarded="bypass", detail="head")), outcome)
        return await self._board(prepared._replace(status=status), named, outcome)

    def change(self, *, scope: Scope, routes: Routes, only_observes: bool) -> None:
        """From the next request on these decide: nothing that was remembered by the old ones is known any more."""
        self.scope, self.routes, self.only_observes = scope, routes, only_observes
        self.memo.clear()

    def account(self, outcome: Outcome) -> None:
        """The end of a query, exactly once; of a hit that went out whole at once, `counters.account_hit` is it."""
        outcome.took_ms = time.monotonic() * 1000 - outcome.began_ms
        self.counters.account(outcome)

    async def forget(self, key: str) -> None:
        """Purges one record here and on disk; what is in the air for its key is not kept.  Raises StoreError."""
        self.flights.forget(key)
        await self.keeping.forget(key)

    async def close(self) -> None:
        await self.flights.close()
        # What landed just now is given to others until they can find it themselves.
        await self.keeping.close()
        await self.lease.close()
        await self.tiers.close()
        for route in self.routes:
            await route.origin.close()

    def _look(self, named: Named) -> Hit | Unmade | Unusable | None:
        """What memory and disk have of a query, if anything."""
        found = self.tiers.look_near(named.key, named.query.namespace, owner=named.namespaces.tenant)
        return None if found is None else self._hit(found, named)

    async def _made(self, found: Found, named: Named) -> Hit | Unusable:
        """The answer of a record, however long it takes to make."""
        try:
            while isinstance(hit := self._hit(found, named), Unmade):
                await self.workshop.make(found.held, named)
        except NotAnAnswer:
            self.tiers.corrupt += 1
            return Unusable("uri-miss")
        return hit

    def _hit(self, found: Found, named: Named) -> Hit | Unmade | Unusable:
        """The answer of a record; one that can't be given in the shape asked for is counted as corrupt."""
        now_ms = self._now_ms()
        generations = self.generations.now()
        again = ready.again(found.held, named, now_ms=now_ms, generations=generations)
        if again is not None:
            return again
        verdict = judged(found.held, named, now_ms=now_ms, generations=generations)
        if isinstance(verdict, Unusable):
            return verdict
        if not self.workshop.has(found.held, named):
            return Unmade(found)
        try:
            return ready.hit(found, verdict, named, tiers=self.tiers, now_ms=now_ms)
        except NotAnAnswer:
            self.tiers.corrupt += 1
            return Unusable("uri-miss")

    async def _board(self, prepared: Prepared, named: Named, outcome: Outcome) -> Answer | Hit:
        """The answer of a flight in the air, here or in another process, or of a new one."""
        may_join = prepared.permit.may_join
        alone = False
        is_first_sight: bool | None = None
        for turns_left in range(MOST_TURNS, 0, -1):
            alone = alone or turns_left == 1
            ride = self.flights.join(named.key, usage=named.usage) if may_join and turns_left > 1 else None
            is_joined = ride is not None
            if ride is None:
                turn = ALONE if alone else self.lease.turn(named.key)
                kept = self._kept_meanwhile(named) if turn.is_taken and may_join else None
                if kept is not None:
                    turn.give_back()
                    hit = await self._made(kept, named)
                    if isinstance(hit, Unusable):
                        continue
                    if self.only_observes:
                        return await self._pass(self._observed(prepared, hit, outcome), outcome)
                    hit.tell(outcome)
                    return hit
                if is_first_sight is None:
                    is_first_sight = self._is_first_sight(named)
                turn = turn if may_join or turn.is_taken else ALONE
                ride, is_joined = self._fly(prepared, named, turn, is_first_sight=is_first_sight)
            if is_joined and self.only_observes:
                await ride.leave()
                return await self._pass(self._observed(prepared, None, outcome), outcome)
            try:
                status = prepared.status
                if is_joined:
                    status = replace(status, collapsed=True)
                elif is_first_sight:
                    status = replace(status, detail=status.detail or "first-sight")
                return await self._ride(ride, named, status, outcome)
            except LeaderLost as lost:
                alone = alone or lost.alone  # nothing of it went out yet
        raise AssertionError("the last turn is a flight of our own")

    def _kept_meanwhile(self, named: Named) -> Found | None:
        """A good record that another process has put into a near tier since we looked."""
        found = self.tiers.look_again(named.key, named.query.namespace, owner=named.namespaces.tenant)
        return None if found is None or isinstance(self._hit(found, named), Unusable) else found

    def _is_first_sight(self, named: Named) -> bool:
        """Whether an answer won't be kept because nobody asked for it before, nor is one kept that it would replace."""
        if not named.route.waits_for_second or self.tiers.in_memory(named.key, named.query.namespace) is not None:
            return False
        return not self.doorkeeper.met(named.key)

    def _fly(self, prepared: Prepared, named: Named, turn: Turn, *, is_first_sight: bool) -> tuple[Ride, bool]:
        """A new flight, and whether it follows another process's."""
        route, table = named.route, self.generations.now()
        asked, tells_usage = asking_for_usage(prepared.asked, route)
        following = turn.follow(named.query.namespace, owner=named.namespaces.tenant, usage=tells_usage)
        if following is not None:
            ride = self.flights.start(
                named.key,
                following.fetch,
                following.landing,
                finishes_alone=route.finishes_alone,
                tells_usage=tells_usage,
            )
            following.aboard(ride.flight)
            return ride, True
        beside = forwarded(prepared.head, asked, route)
        tags = implicit_tags(
            named.namespaces.chain, model=named.query.model, revision=named.query.revision, engine=route.engine
        )
        tags += [caller_tag(named.namespaces.tenant, tag) for tag in named.controls.tags]
        departure = Departure(
            asked=asked,
            named=named,
            lifetimes=policy.lifetimes(route.lifetimes, named.controls),
            tags={tag: table.get(tag, NEVER_PURGED) for tag in tags},
            asked_ms=self._now_ms(),
            asked_for_usage=tells_usage,
            is_first_sight=is_first_sight,
        )

        ride = self.flights.start(
            named.key,
            lambda: route.origin.fetch(asked, beside),
            Runway(departure, self.keeping, generations=self.generations, now_ms=self._now_ms),
            finishes_alone=route.finishes_alone,
            tells_usage=tells_usage,
        )
        turn.lead(ride.flight, named.query.namespace, tags=departure.tags)
        return ride, False

    def _observed(self, prepared: Prepared, hit: Hit | None, outcome: Outcome) -> Prepared:
        """The query as it goes to its origin, though it would have been a hit, or else have joined a flight.

        What comes is not kept: the record there is stays as old as it would be.
        """
        outcome.would_be = How.COLLAPSED if hit is None else hit.how
        outcome.would_save_ms = 0 if hit is None else hit.origin_ms
        detail = f"would-be-{outcome.would_be.value}"
        return prepared._replace(named=None, status=replace(prepared.status, forwarded="bypass", detail=detail))

    def _not_kept(self, outcome: Outcome) -> NotKept:
        outcome.how, outcome.detail = How.MISS, "only-if-cached"
        return NotKept("only-if-cached, and no usable answer is kept for this query")

    async def _ride(self, ride: Ride, named: Named, status: CacheStatus, outcome: Outcome) -> Answer:
        outcome.how = How.COLLAPSED if status.collapsed else How.MISS
        try:
            return await deliver.from_ride(ride, named, outcome, status=status)
        except BaseException:
            await ride.leave()
            raise

    async def _pass(self, prepared: Prepared, outcome: Outcome) -> Answer:
        route, asked, status = prepared.route, prepared.asked, prepared.status
        outcome.how, outcome.detail = How.PASS, status.detail
        incoming = await route.origin.fetch(asked, forwarded(prepared.head, asked, route))
        return await deliver.passed(incoming, asked, outcome, status=status)
