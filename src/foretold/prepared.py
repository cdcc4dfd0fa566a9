"""What was found out about a query so far, between the steps of its life (node.py)."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from foretold.contract.status import CacheStatus
from foretold.memo import Head, Named
from foretold.policy import Permit
from foretold.ports import Asked
from foretold.routes import Route
from foretold.tiers.order import Found


class Prepared(NamedTuple):
    """A query that was read and not answered near.

    `named` is None where it passes, `found` a record to be made ready, `spare` one that may stand in for a failed
    origin.  `refreshes` is said while observing: its own flight is the one that would be behind its back.
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
