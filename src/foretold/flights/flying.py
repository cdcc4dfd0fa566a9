"""The flights that queries start: which origin is asked, what is known at take-off, what lands where (rules L1, F1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from foretold import policy
from foretold.contract.generations import NEVER_PURGED, caller_tag, implicit_tags
from foretold.flights.flight import Ride
from foretold.flights.forwarding import asking_for_usage, forwarded
from foretold.flights.landing import Departure
from foretold.flights.lease import ALONE, Lease, Turn
from foretold.flights.refreshing import Refreshing
from foretold.flights.runway import Runway
from foretold.flights.table import Flights
from foretold.memo import Head, Named
from foretold.ports import Asked, Generations, Incoming, Origin
from foretold.routes import Route
from foretold.tiers.keeping import Keeping

TakeOff = Callable[[], Awaitable[Incoming]]


def origin_of(route: Route, *, asks_others: bool) -> Origin:
    """Whoever is asked on a route."""
    return route.origin if asks_others or route.first is None else route.first


class Flying:
    def __init__(
        self,
        keeping: Keeping,
        generations: Generations,
        *,
        lease: Lease = ALONE,
        now_ms: Callable[[], int],
        monotonic_ms: Callable[[], int],
    ):
        self.flights = Flights(now_ms=monotonic_ms)
        self.refreshing = Refreshing(monotonic_ms)
        self._keeping = keeping
        self._generations = generations
        self._lease = lease
        self._now_ms = now_ms

    def join(self, named: Named, *, asks_others: bool) -> Ride | None:
        """A seat in a flight for this query that is in the air, or that brought an error a moment ago."""
        return self.flights.join(named.key, usage=named.usage, asks_others=asks_others)

    def turn(self, named: Named, *, asks_others: bool) -> Turn:
        """Whose turn it is among the processes; a flight that leaves out fallbacks, or takes nobody aboard, asks none."""
        is_alone = not named.route.collapses or not (asks_others or named.route.first is None)
        return ALONE if is_alone else self._lease.turn(named.key)

    def start(
        self,
        head: Head,
        asked: Asked,
        named: Named,
        *,
        asks_others: bool,
        finishes_alone: bool = False,
        turn: Turn = ALONE,
        is_first_sight: bool = False,
        take_off: TakeOff | None = None,
    ) -> tuple[Ride, bool]:
        """A seat in a new flight, and whether it follows another process's.

        `asks_others` says whether the route's further origins are asked if the first fails.  `take_off` is how the
        answer comes, by default by asking just this.
        """
        route, table = named.route, self._generations.now()
        origin = origin_of(route, asks_others=asks_others)
        asked, tells_usage = asking_for_usage(asked, route)
        following = turn.follow(named.query.namespace, owner=named.namespaces.tenant, usage=tells_usage)
        if following is not None:
            ride = self.flights.start(
                named.key,
                following.fetch,
                following.landing,
                finishes_alone=finishes_alone or route.finishes_alone,
                tells_usage=tells_usage,
                asks_others=asks_others,
            )
            following.aboard(ride.flight)
            return ride, True
        beside = forwarded(head, asked, route)
        tags = implicit_tags(
            named.namespaces.chain, model=named.query.model, revision=named.query.revision, engine=route.engine
        )
        tags += [caller_tag(named.namespaces.tenant, tag) for tag in named.controls.tags]
        departure = Departure(
            # What is left of a flight for a moment shall not hold its query's body.
            asked=replace(asked, body=b""),
            named=named,
            lifetimes=policy.lifetimes(route.lifetimes, named.controls),
            tags={tag: table.get(tag, NEVER_PURGED) for tag in tags},
            asked_ms=self._now_ms(),
            asked_for_usage=tells_usage,
            is_first_sight=is_first_sight,
        )
        ride = self.flights.start(
            named.key,
            take_off or (lambda: origin.fetch(asked, beside)),
            Runway(departure, self._keeping, generations=self._generations, now_ms=self._now_ms),
            finishes_alone=finishes_alone or route.finishes_alone,
            tells_usage=tells_usage,
            asks_others=asks_others,
            is_shared=route.collapses,
            own_bytes=named.own_bytes + len(asked.path) + len(asked.query),
        )
        turn.lead(ride.flight, named.query.namespace, tags=departure.tags)
        return ride, False

    def may_refresh(self, named: Named) -> bool:
        """Whether a query that is given a stale record may have a new one fetched behind its back, now."""
        key = named.key
        return (
            not named.controls.only_if_cached
            and named.method != "HEAD"
            and self.refreshing.may_begin(key)
            and not self.flights.flies(key)
            and not self.flights.has_mark(key)
        )

    def refresh(
        self, head: Head, asked: Asked, named: Named, *, asks_others: bool = False, take_off: TakeOff | None = None
    ) -> Ride:
        """A seat in a flight that goes on though nobody is aboard."""
        key, refreshing = named.key, self.refreshing
        refreshing.begins(key, held_bytes=len(asked.body))
        asks_others = asks_others or named.route.first is None
        turn = self.turn(named, asks_others=asks_others)
        ride, _ = self.start(
            head, asked, named, turn=turn, asks_others=asks_others, finishes_alone=True, take_off=take_off
        )
        flight = ride.flight

        def ended(_: object) -> None:
            if flight.task.cancelled():
                refreshing.is_cancelled(key)
            else:
                refreshing.ends(key, is_kept=flight.error is None and flight.why_not_kept is None)

        flight.task.add_done_callback(ended)
        return ride
