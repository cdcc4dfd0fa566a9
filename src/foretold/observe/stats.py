"""The node's counts as one JSON document."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from foretold import __version__
from foretold.node import Node
from foretold.observe.counters import BUCKETS_MS
from foretold.outcome import How
from foretold.stores.memory import MemoryStore
from foretold.tiers.breaker import Standing
from foretold.tiers.tier import Tier


def stats(node: Node) -> dict[str, Any]:
    counters = node.counters
    return {
        "version": __version__,
        "received": counters.received,
        "how": {how.value: counters.how[how].count for how in How},
        "took_ms": {how.value: round(counters.how[how].took_ms, 3) for how in How},
        "at_most_ms": list(BUCKETS_MS),
        "times": {how.value: counters.how[how].buckets for how in How},
        "ended": {ended.value: count for ended, count in counters.ended.items()},
        "stored": node.keeping.kept,
        "refreshed": node.flying.refreshing.refreshed,
        "refresh_failed": node.flying.refreshing.failed,
        "saved_ms": counters.saved_ms,
        "mode": "observe" if node.only_observes else "serve",
        "would_be": {how.value: count for how, count in counters.would_be.items()},
        "would_save_ms": counters.would_save_ms,
        "flights": len(node.flights) - node.lease.following,
        "corrupt": node.tiers.corrupt,
        "routes": _routes(counters.routes),
        "tiers": _tiers(node),
        "models": [],
        "workers": [],
        "restarts": 0,
    }


def _routes(counted: dict[tuple[str, How], int]) -> dict[str, dict[str, int]]:
    routes: dict[str, dict[str, int]] = {}
    for (route, how), count in counted.items():
        routes.setdefault(route, {})[how.value] = count
    return routes


def _tiers(node: Node) -> list[dict[str, Any]]:
    memory = node.tiers.memory
    row = {"name": memory.name, "reading": Standing.WORKING.value, "writing": Standing.WORKING.value, "opened": 0}
    rows = [{**row, **asdict(node.tiers.memory_counts), **_size(memory)}]
    return rows + [_tier(tier) for tier in node.tiers.below]


def _tier(tier: Tier) -> dict[str, Any]:
    """`opened` is how often reading or writing was left out."""
    standing = {"reading": tier.reading, "writing": tier.writing, "opened": tier.reads.opened + tier.writes.opened}
    return {"name": tier.name, **standing, **asdict(tier.counts), **_size(tier)}


def _size(tier: MemoryStore | Tier) -> dict[str, int]:
    return {"held_bytes": tier.held_bytes, "limit_bytes": tier.limit_bytes}
