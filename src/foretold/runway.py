"""Where flights land: their answers become records and are kept."""

from __future__ import annotations

from collections.abc import Callable

from foretold.keeping import Keeping
from foretold.landing import Departure, admits, record_of
from foretold.ports import Incoming


class Runway:
    """The landing of one flight (flight.Landing)."""

    def __init__(self, departure: Departure, keeping: Keeping, now_ms: Callable[[], int]):
        self._departure = departure
        self._keeping = keeping
        self._now_ms = now_ms

    def admits(self, incoming: Incoming) -> bool:
        if incoming.length is not None and not self._keeping.takes(incoming.length):
            return False
        return admits(self._departure, incoming, now_ms=self._now_ms())

    def land(self, incoming: Incoming, body: bytes) -> str | None:
        record = record_of(self._departure, incoming, body, now_ms=self._now_ms())
        return record if isinstance(record, str) else self._keeping.keep(record)
