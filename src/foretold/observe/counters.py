"""Counts of all outcomes.  They add up: received = hit + stale + collapsed + miss + pass + error, once all have ended.

Plain integers, because a label look-up in a metrics library costs more than the rest of a hit.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass, field

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
        self.observers: list[Callable[[Outcome], None]] = []

    def receive(self) -> None:
        self.received += 1

    def account(self, outcome: Outcome) -> None:
        counts = self.how[outcome.how]
        counts.count += 1
        counts.took_ms += outcome.took_ms
        counts.body_bytes += outcome.body_bytes
        counts.buckets[bisect.bisect_left(BUCKETS_MS, outcome.took_ms)] += 1
        self.ended[outcome.ended] += 1
        place = (outcome.route, outcome.how)
        self.routes[place] = self.routes.get(place, 0) + 1
        if outcome.how in (How.HIT, How.STALE):
            self.saved_ms += outcome.origin_ms
        for observe in self.observers:
            observe(outcome)
