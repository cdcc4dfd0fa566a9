"""What a million requests cost at the edge, computed from prices.toml: beyond what the plan includes, and without the
model, whose price is its provider's.
"""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from foretold.deploy.plan import Edge

HIT_SHARES_PERCENT = (0, 50, 80, 95)
# Assumed: a hit from KV, and a miss with its write.  CPU is the smallest part of the price.
HIT_CPU_MS = 3
MISS_CPU_MS = 6
# As few as the Worker ever writes into one object of its log.
LOG_LINES = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    hits_percent: int
    dollars: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """`dollars` are for a million requests, each hit one read of KV, each miss a read and a write.

    `prices_of` is the day of the oldest price used.
    """

    rows: tuple[Row, ...]
    monthly_dollars: float
    prices_of: str
    free_plan: str


def estimate(edge: Edge, hits_percent: Sequence[int] = ()) -> Estimate:
    """For these shares of hits, or a few of our own choice."""
    table = prices()
    shares = tuple(hits_percent) or HIT_SHARES_PERCENT
    rows = tuple(Row(hits_percent=share, dollars=round(_dollars(edge, share / 100), 4)) for share in shares)
    free = table["workers"]["free"], table["kv"]["free"]
    return Estimate(
        rows=rows,
        monthly_dollars=table["workers"]["plan"]["per_month"],
        prices_of=min(_day(price) for price, _ in _uses(edge, hit_share=0)).isoformat(),
        free_plan=f"{free[0]['requests_per_day']:,} requests and {free[1]['writes_per_day']:,} new answers a day",
    )


def _dollars(edge: Edge, hit_share: float) -> float:
    return sum(float(price["per_million"]) * times for price, times in _uses(edge, hit_share=hit_share))


def _uses(edge: Edge, *, hit_share: float) -> Iterator[tuple[dict[str, Any], float]]:
    """What a request of this description pays for on average, and how often."""
    table, script = prices(), edge.script
    yield table["workers"]["requests"], 1
    yield table["workers"]["cpu_ms"], hit_share * HIT_CPU_MS + (1 - hit_share) * MISS_CPU_MS
    yield table["kv"]["reads"], 1
    yield table["kv"]["writes"], 1 - hit_share
    if script.cached_entrypoints:
        # What stands behind Workers Cache is asked by a request of its own.
        yield table["workers"]["requests"], 1
    if script.logs:
        yield table["workers"]["logs"], 1
    if script.analytics is not None:
        yield table["analytics_engine"]["points"], 1
    if script.log_bucket is not None:
        yield table["r2"]["class_a"], 1 / LOG_LINES


@cache
def prices() -> dict[str, dict[str, dict[str, Any]]]:
    """The table: service → what is paid for → price, day and source."""
    return tomllib.loads(resources.files("foretold.deploy").joinpath("prices.toml").read_text("utf-8"))


def _day(row: dict[str, Any]) -> datetime.date:
    day: datetime.date = row["read"]
    return day
