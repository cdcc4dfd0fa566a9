"""The life of a query, step by step.  Start reading here.

receive → authenticate → limit → read → name → admit → look up → judge → fly → fetch → keep → deliver → account

The first three happen in the server (server/guard.py), the last when the answer has ended.  Known queries are
answered by `find` alone, from memory, without waiting for anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from foretold import deliver, policy, ready
from foretold.answer import Answer
from foretold.contract.controls import Controls
from foretold.contract.freshness import Judged
from foretold.contract.generations import NEVER_PURGED, caller_tag, implicit_tags
from foretold.contract.key import key_of
from foretold.contract.query import Query, keyed_headers
from foretold.contract.status import CacheStatus, may_answer_304
from foretold.errors import NotKept
from foretold.flight import Flights, Ride
from foretold.forwarding import asking_for_usage, forwarded
from foretold.judging import Unusable, judged
from foretold.keeping import Keeping
from foretold.landing import Departure
from foretold.memo import Head, Memo, Named
from foretold.observe.counters import Counters
from foretold.outcome import How, Outcome
from foretold.ports import Asked, Generations
from foretold.routes import Route, Routes
from foretold.runway import Runway
from foretold.scope import Scope
from foretold.tiers import Held, Tiers


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
    ):
        self.scope = scope
        self.routes = routes
        self.tiers = tiers
        self.keeping = keeping
        self.generations = generations
        self.counters = counters
        self.memo = Memo()
        self.flights = Flights()
        self._now_ms = now_ms

    def find(self, head: Head, body: bytes) -> Answer | None:
        """The answer of a query met before whose record is in memory and good; None for everything else."""
        named = self.memo.named(head, body)
        if named is None:
            return None
        held = self.tiers.in_memory(named.key, named.query.namespace)
        if held is None:
            return None
        verdict = self._judged(held, named)
        if isinstance(verdict, Unusable):
            return None
        self.tiers.memory_counts.lookups += 1
        self.tiers.memory_counts.hits += 1
        outcome = Outcome(time.monotonic() * 1000)
        return self._hit(held, verdict, named, outcome, self.tiers.memory.name)

    async def answer(self, head: Head, body: bytes, outcome: Outcome) -> Answer:
        """The answer of any query.  Raises ForetoldError; a cancelled caller leaves its flight to those who wait."""
        asked = head.dialect.read(replace(head.request, body=body), head.controls)
        controls = head.controls.stricter(asked.controls)
        route = self.routes.match(asked)
        outcome.operation, outcome.model, outcome.route = asked.operation, asked.model, route.name
        permit = policy.permit(asked, controls, route_stores=route.stores)
        if permit.is_pass:
            return await self._pass(head, asked, route, permit.detail, outcome)

        named = self._named(head, asked, controls, route)
        status = CacheStatus(forwarded=permit.forwarded, key=None if route.shared else named.key, detail=permit.detail)
        if permit.may_read:
            self.memo.keep_named(head, body, named)
            found = await self.tiers.look_up(named.key, named.query.namespace)
            verdict = self._judged(found.held, named) if found is not None else None
            if found is not None and isinstance(verdict, Judged):
                return self._hit(found.held, verdict, named, outcome, found.tier)
            if isinstance(verdict, Unusable):
                status = replace(status, forwarded=verdict.forwarded, detail=verdict.detail or status.detail)

        if controls.only_if_cached:
            outcome.how, outcome.detail = How.MISS, "only-if-cached"
            raise NotKept("only-if-cached, and no usable answer is kept for this query")
        if asked.method == "HEAD":
            return await self._pass(head, asked, route, "head", outcome)
        ride = self.flights.join(named.key, usage=named.usage) if permit.may_join else None
        if ride is not None:
            return await self._ride(ride, named, replace(status, collapsed=True), outcome)
        ride = self._fly(head, asked, named)
        return await self._ride(ride, named, status, outcome)

    def account(self, outcome: Outcome) -> None:
        """The end of a query, exactly once."""
        outcome.took_ms = time.monotonic() * 1000 - outcome.began_ms
        self.counters.account(outcome)

    async def close(self) -> None:
        await self.flights.close()
        await self.keeping.close()
        await self.tiers.close()
        for route in self.routes:
            await route.origin.close()

    def _named(self, head: Head, asked: Asked, controls: Controls, route: Route) -> Named:
        shared_route = route.name if route.shared else None
        namespaces = self.scope.namespaces(head.tenant, controls, shared_route=shared_route)
        query = Query(
            namespace=namespaces.own,
            operation=asked.operation,
            model=route.keyed_model(asked.model),
            revision=route.keyed_revision,
            sample=controls.sample or 0,
            query=asked.query,
            headers=keyed_headers(asked.operation, head.request.headers, also=route.keyed_headers),
            form=asked.form,
            input=asked.input or "",
        )
        if_none_match = next((value for name, value in head.request.headers if name == "if-none-match"), None)
        return Named(
            key=key_of(query),
            query=query,
            namespaces=namespaces,
            route=route,
            controls=controls,
            method=asked.method,
            is_safe=may_answer_304(asked.method),
            streamed=asked.streamed,
            usage=asked.usage,
            if_none_match=if_none_match,
            detail=policy.ignored_alias(controls),
        )

    def _judged(self, held: Held, named: Named) -> Judged | Unusable:
        return judged(held, named, now_ms=self._now_ms(), generations=self.generations.now())

    def _hit(self, held: Held, verdict: Judged, named: Named, outcome: Outcome, tier: str) -> Answer:
        outcome.operation, outcome.model, outcome.route = named.query.operation, named.query.model, named.route.name
        outcome.tier = tier
        return ready.hit(held, verdict, named, outcome, self.tiers)

    def _fly(self, head: Head, asked: Asked, named: Named) -> Ride:
        route, table = named.route, self.generations.now()
        asked, tells_usage = asking_for_usage(asked, route)
        beside = forwarded(head, asked, route)
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
        )

        return self.flights.start(
            named.key,
            lambda: route.origin.fetch(asked, beside),
            Runway(departure, self.keeping, self._now_ms),
            finishes_alone=route.finishes_alone,
            tells_usage=tells_usage,
        )

    async def _ride(self, ride: Ride, named: Named, status: CacheStatus, outcome: Outcome) -> Answer:
        outcome.how = How.COLLAPSED if status.collapsed else How.MISS
        try:
            return await deliver.from_ride(ride, named, outcome, status=status)
        except BaseException:
            await ride.leave()
            raise

    async def _pass(self, head: Head, asked: Asked, route: Route, detail: str | None, outcome: Outcome) -> Answer:
        outcome.how, outcome.detail = How.PASS, detail
        incoming = await route.origin.fetch(asked, forwarded(head, asked, route))
        return await deliver.passed(incoming, asked, outcome, status=CacheStatus(forwarded="bypass", detail=detail))
