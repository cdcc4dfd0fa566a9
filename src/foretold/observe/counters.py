"""Counts of all outcomes.  They add up: received = hit + stale + collapsed + miss + pass + error, once all have ended.

Plain integers, because a label look-up in a metrics library costs more than the rest of a hit.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass, field

from foretold.answers.answer import Hit
from foretold.outcome import Ended, How, Outcome

# Upper bounds of the time to the end of an answer, in milliseconds; the last bucket has none.
BUCKETS_MS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000)


@dataclass(slots=True)
class HowCounts:
    """Of one `how`: how many, how long they took together, and in which bucket each fell."""

    count: int = 0
    took_ms: float = 0.0
    body_bytes: int = 0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_MS) + 1))


class Counters:
    def __init__(self) -> None:
        self.received = 0
        self.how = {how: HowCounts() for how in How}
        self.ended = dict.fromkeys(Ended, 0)
        self.routes: dict[tuple[str, How], int] = {}
        self.saved_ms = 0
        self.would_be = dict.fromkeys((How.HIT, How.STALE, How.COLLAPSED), 0)
        self.would_save_ms = 0
        self.observers: list[Callable[[Outcome], None]] = []

    def receive(self) -> None:
        self.received += 1

    def account(self, outcome: Outcome) -> None:
        self._count(outcome.how, outcome.ended, outcome.route, took_ms=outcome.took_ms, body_bytes=outcome.body_bytes)
        if outcome.how in (How.HIT, How.STALE):
            self.saved_ms += outcome.origin_ms
        if outcome.would_be is not None:
            self.would_be[outcome.would_be] += 1
            self.would_save_ms += outcome.would_save_ms
        for observe in self.observers:
            observe(outcome)

    def account_hit(self, hit: Hit, *, took_ms: float) -> None:
        """The account of a hit of which all went out; an outcome is made of it only for those who look at outcomes."""
        self._count(hit.how, Ended.WHOLE, hit.route, took_ms=took_ms, body_bytes=len(hit.body))
        self.saved_ms += hit.origin_ms
        for observe in self.observers:
            outcome = Outcome(0.0, ended=Ended.WHOLE, took_ms=took_ms)
            hit.tell(outcome)
            observe(outcome)

    def _count(self, how: How, ended: Ended, route: str, *, took_ms: float, body_bytes: int) -> None:
        counts = self.how[how]
        counts.count += 1
        counts.took_ms += took_ms
        counts.body_bytes += body_bytes
        counts.buckets[0 if took_ms <= BUCKETS_MS[0] else bisect.bisect_left(BUCKETS_MS, took_ms)] += 1
        self.ended[ended] += 1
        place = (route, how)
        self.routes[place] = self.routes.get(place, 0) + 1
