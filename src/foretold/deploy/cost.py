"""What a million requests cost at the edge, computed from prices.toml: beyond what the plan includes, and without the
model, whose price is its provider's.
"""

from __future__ import annotations

import datetime
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from foretold.deploy.plan import Edge

HIT_SHARES_PERCENT = (0, 50, 80, 95)
# Assumed: a hit from KV, and a miss with its write.  CPU is the smallest part of the price.
HIT_CPU_MS = 3
MISS_CPU_MS = 6


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


def estimate(edge: Edge) -> Estimate:
    table = prices()
    used = [table["workers"]["requests"], table["workers"]["cpu_ms"], table["kv"]["reads"], table["kv"]["writes"]]
    if edge.script.logs:
        used.append(table["workers"]["logs"])
    rows = tuple(Row(hits_percent=share, dollars=round(_dollars(edge, share / 100), 4)) for share in HIT_SHARES_PERCENT)
    free = table["workers"]["free"], table["kv"]["free"]
    return Estimate(
        rows=rows,
        monthly_dollars=table["workers"]["plan"]["per_month"],
        prices_of=min(_day(row) for row in used).isoformat(),
        free_plan=f"{free[0]['requests_per_day']:,} requests and {free[1]['writes_per_day']:,} new answers a day",
    )


def _dollars(edge: Edge, hit_share: float) -> float:
    workers, kv = prices()["workers"], prices()["kv"]
    cpu_ms = hit_share * HIT_CPU_MS + (1 - hit_share) * MISS_CPU_MS
    told = float(
        workers["requests"]["per_million"]
        + cpu_ms * workers["cpu_ms"]["per_million"]
        + kv["reads"]["per_million"]
        + (1 - hit_share) * kv["writes"]["per_million"]
    )
    return told + (float(workers["logs"]["per_million"]) if edge.script.logs else 0.0)


@cache
def prices() -> dict[str, dict[str, dict[str, Any]]]:
    """The table: service → what is paid for → price, day and source."""
    return tomllib.loads(resources.files("foretold.deploy").joinpath("prices.toml").read_text("utf-8"))


def _day(row: dict[str, Any]) -> datetime.date:
    day: datetime.date = row["read"]
    return day
