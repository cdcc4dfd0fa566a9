"""The flights in the air, by key, and for moments what became of them (rule L1)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from foretold.flights.aftermath import Aftermath, Place, monotonic_ms
from foretold.flights.flight import PATIENCE_S, Flight, Landing, Ride
from foretold.ports import Incoming


class Flights:
    """Flights of one key that ask the route's further origins where the first one fails, and those that don't, are two."""

    def __init__(self, *, patience_s: float = PATIENCE_S, now_ms: Callable[[], int] = monotonic_ms) -> None:
        """`patience_s`: how long a rider may read nothing of an overlong answer while others wait for it.

        `now_ms` never goes back.
        """
        self._patience_s = patience_s
        self._aftermath: Aftermath[Flight] = Aftermath(now_ms)
        self._by_place: dict[Place, Flight] = {}
        self._all: set[Flight] = set()
        # All of a key, in the order in which they began.
        self._aloft: dict[str, list[Flight]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def join(self, key: str, *, usage: bool, asks_others: bool = True) -> Ride | None:
        """A seat in the flight for a key, if there is one that can still be joined and tells usage where wanted.

        Where its last flight brought an error a moment ago, one in that: an echo.
        """
        flight = self._by_place.get((key, asks_others))
        if flight is not None and flight.can_be_joined and (flight.tells_usage or not usage):
            return flight.board()
        mark = self._aftermath.of((key, asks_others))
        if mark is None or mark.flight is None or (usage and not mark.flight.tells_usage):
            return None
        return mark.flight.board(is_echo=True)

    def flies(self, key: str) -> bool:
        """Whether a flight for a key is in the air that can be joined."""
        flights = (self._by_place.get((key, asks_others)) for asks_others in (True, False))
        return any(flight is not None and flight.can_be_joined for flight in flights)

    def has_mark(self, key: str) -> bool:
        """Whether a flight for a key left a moment ago that its origin rests, or that its callers fly alone."""
        return any(self._aftermath.of((key, asks_others)) is not None for asks_others in (True, False))

    def start(
        self,
        key: str,
        take_off: Callable[[], Awaitable[Incoming]],
        landing: Landing,
        *,
        finishes_alone: bool,
        tells_usage: bool,
        asks_others: bool = True,
        is_shared: bool = True,
        own_bytes: int = 0,
    ) -> Ride:
        """A seat in a new flight, which later callers of the key may join.

        One that is not shared takes nobody else aboard, leaves nothing behind, and hinders no other.  `own_bytes` is
        what its landing holds.
        """
        place = (key, asks_others)
        mark = self._aftermath.of(place)
        flight = Flight(
            key,
            take_off,
            landing,
            landed=self._landed,
            finishes_alone=finishes_alone,
            tells_usage=tells_usage,
            leaves=lambda flight: self._leave(place, flight, own_bytes=own_bytes) if is_shared else None,
            patience_s=self._patience_s,
        )
        if is_shared and (mark is None or mark.flight is not None):
            self._by_place[place] = flight
        self._aloft.setdefault(key, []).append(flight)
        # The set keeps the task alive: the loop itself refers to tasks only weakly.
        self._all.add(flight)
        flight.task.add_done_callback(lambda _: self._ended(place, flight))
        return flight.board()

    def forget(self, key: str) -> None:
        """Whatever is in the air for a key goes to those aboard and is not kept; what earlier ones left is gone."""
        self._aftermath.forget(key)
        for asks_others in (True, False):
            self._by_place.pop((key, asks_others), None)
        for flight in self._aloft.get(key, ()):
            flight.landing.shut()

    def forget_endings(self) -> None:
        """What earlier flights left counts no more: they asked by other settings."""
        self._aftermath.clear()

    async def close(self) -> None:
        """Cancels all that still fly."""
        flying = [flight.task for flight in self._all]
        for task in flying:
            task.cancel()
        await asyncio.gather(*flying, return_exceptions=True)

    def _leave(self, place: Place, flight: Flight, *, own_bytes: int) -> None:
        self._aftermath.leave(
            place,
            flight.ending,
            flight,
            came_bytes=flight.came_bytes,
            own_bytes=own_bytes + flight.head_bytes,
            is_alive=flight.landing.is_open,
        )

    def _landed(self, flight: Flight) -> None:
        """Those who began before a flight whose answer was kept no longer land."""
        for older in self._aloft[flight.key]:
            if older is flight:
                return
            older.landing.supersede()

    def _ended(self, place: Place, flight: Flight) -> None:
        self._all.discard(flight)
        flights = self._aloft[flight.key]
        flights.remove(flight)
        if not flights:
            del self._aloft[flight.key]
        if self._by_place.get(place) is flight:
            del self._by_place[place]
