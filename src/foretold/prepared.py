"""What was found out about a query so far, between the steps of its life (node.py)."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from foretold.answers.judging import Unusable
from foretold.contract.freshness import Judged
from foretold.contract.status import CacheStatus
from foretold.memo import Head, Named
from foretold.policy import Permit
from foretold.ports import Asked
from foretold.routes import Route
from foretold.tiers.held import Held
from foretold.tiers.order import Found


class Kept(NamedTuple):
    """A record that can answer one of several queries."""

    held: Held
    tier: str
    judged: Judged


class Batch:
    """The queries of one request, in its order, and what is known of each by its key.

    `kept` are those that records answer, `spares` the records that may stand in if the origin fails; `why_not` is the
    first reason why a record that was found can't answer.
    """

    def __init__(self, nameds: tuple[Named, ...]):
        self.nameds = nameds
        self.places: dict[str, int] = {}
        for place, named in enumerate(nameds):
            self.places.setdefault(named.key, place)
        self.kept: dict[str, Kept] = {}
        self.spares: dict[str, Kept] = {}
        self.why_not: Unusable | None = None

    def status(self, forwarded: str) -> CacheStatus:
        """What is said if it goes to its origin: of several keys none."""
        return replace(self.nameds[0].status(forwarded), key=None)

    def of(self, key: str) -> Named:
        return self.nameds[self.places[key]]

    @property
    def missing(self) -> list[str]:
        """The keys that no record answers, each once."""
        return [key for key in self.places if key not in self.kept]

    @property
    def told(self) -> str:
        """How many of how many are kept."""
        return f"{sum(named.key in self.kept for named in self.nameds)}/{len(self.nameds)}"


class Prepared(NamedTuple):
    """A query that was read and not answered near.

    `named` is None where it passes, `found` a record to be made ready, `spare` one that may stand in for a failed
    origin.  `refreshes` is said while observing: its own flight is the one that would be behind its back.  A `batch`
    is several queries asked in one request, without a `named` of their own.
    """

    head: Head
    asked: Asked
    route: Route
    status: CacheStatus
    named: Named | None
    permit: Permit
    is_only_if_cached: bool
    found: Found | None = None
    spare: Found | None = None
    refreshes: bool = False
    batch: Batch | None = None


class Unmade(NamedTuple):
    """A record that can answer, once its answer was made off the event loop."""

    found: Found

    def told(self, status: CacheStatus) -> CacheStatus:
        return status


class Spare(NamedTuple):
    """A stale record that may stand in if the origin fails."""

    found: Found

    def told(self, status: CacheStatus) -> CacheStatus:
        return replace(status, forwarded="stale")
