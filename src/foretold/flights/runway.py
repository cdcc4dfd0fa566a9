"""Where flights land: their answers become records and are kept, errors of the caller's own making for moments."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from foretold.answers.reshaping import LONGEST_AT_ONCE
from foretold.contract.generations import is_alive
from foretold.flights.landing import Departure, admits, negative_of, record_of
from foretold.ports import Generations, Incoming
from foretold.tiers.keeping import Keeping


class Runway:
    """The landing of one flight (flight.Landing)."""

    def __init__(self, departure: Departure, keeping: Keeping, *, generations: Generations, now_ms: Callable[[], int]):
        self._departure = departure
        self._keeping = keeping
        self._generations = generations
        self._now_ms = now_ms
        self._is_shut = False
        self._is_superseded = False
        self._alive_under = 0

    def is_open(self) -> bool:
        generations = self._generations.now()
        if self._alive_under != generations.epoch and is_alive(self._departure.tags, generations):
            self._alive_under = generations.epoch
        return not self._is_shut and self._alive_under == generations.epoch

    def shut(self) -> None:
        self._is_shut = True

    def supersede(self) -> None:
        self._is_shut = self._is_superseded = True

    def admits(self, incoming: Incoming) -> bool:
        if incoming.length is not None and not self._keeping.takes(incoming.length):
            return False
        return self.is_open() and admits(self._departure, incoming, now_ms=self._now_ms())

    async def land(self, incoming: Incoming, body: bytes) -> str | None:
        if self._departure.is_first_sight:
            return "first-sight"
        now_ms, owner = self._now_ms(), self._departure.named.namespaces.tenant
        if len(body) <= LONGEST_AT_ONCE:
            record = record_of(self._departure, incoming, body, now_ms=now_ms)
        else:
            record = await asyncio.to_thread(record_of, self._departure, incoming, body, now_ms=now_ms)
        if isinstance(record, str):
            if self.is_open() and len(body) <= LONGEST_AT_ONCE:
                negative = negative_of(self._departure, incoming, body, now_ms=now_ms)
                if negative is not None:
                    self._keeping.keep_negative(negative, owner=owner)
            return record
        if not self.is_open():
            return "superseded" if self._is_superseded else "purged"
        return self._keeping.keep(record, owner=owner)
