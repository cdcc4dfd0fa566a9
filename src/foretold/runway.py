"""Where flights land: their answers become records and are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from foretold.contract.generations import is_alive
from foretold.keeping import Keeping
from foretold.landing import Departure, admits, record_of
from foretold.ports import Generations, Incoming
from foretold.reshaping import LONGEST_AT_ONCE


class Runway:
    """The landing of one flight (flight.Landing)."""

    def __init__(self, departure: Departure, keeping: Keeping, *, generations: Generations, now_ms: Callable[[], int]):
        self._departure = departure
        self._keeping = keeping
        self._generations = generations
        self._now_ms = now_ms
        self._is_shut = False
        self._is_superseded = False
        self._alive_under: Mapping[str, str] | None = None

    def is_open(self) -> bool:
        generations = self._generations.now()
        if self._alive_under is not generations and is_alive(self._departure.tags, generations):
            self._alive_under = generations
        return not self._is_shut and self._alive_under is generations

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
        now_ms = self._now_ms()
        if len(body) <= LONGEST_AT_ONCE:
            record = record_of(self._departure, incoming, body, now_ms=now_ms)
        else:
            record = await asyncio.to_thread(record_of, self._departure, incoming, body, now_ms=now_ms)
        if isinstance(record, str):
            return record
        if not self.is_open():
            return "superseded" if self._is_superseded else "purged"
        return self._keeping.keep(record, owner=self._departure.named.namespaces.tenant)
