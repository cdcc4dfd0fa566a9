"""The counts of several processes as those of one node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# Told by each process of a thing that all share.
_SHARED_TIERS = frozenset(["disk"])
_SIZES = ("held_bytes", "limit_bytes")
_THE_SAME = ("version", "mode", "at_most_ms")
# How reading or writing a tier may stand, the best first.
_STANDINGS = ("working", "slow", "failing", "on trial", "left out")


def summed(each: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Counts added up.  What is told of a shared tier's size is one of them; what can't be added is the first's."""
    # A process may go without the disk for a while.
    first = max(each, key=lambda one: len(one["tiers"]))
    told = {name: _sum([one[name] for one in each]) for name in first if name not in _THE_SAME and name != "tiers"}
    told |= {name: first[name] for name in _THE_SAME}
    told["tiers"] = [
        _tier([one["tiers"][at] for one in each if len(one["tiers"]) > at]) for at in range(len(first["tiers"]))
    ]
    return {name: told[name] for name in first}


def ended(told: dict[str, Any]) -> dict[str, Any]:
    """The counts of a process that is no more: what it had done, and nothing of what it held."""
    tiers = [{name: 0 if name in _SIZES else value for name, value in tier.items()} for tier in told["tiers"]]
    return told | {"flights": 0, "tasks": 0, "tiers": tiers}


def _tier(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {name: _of_tier(rows[0]["name"], name, [row[name] for row in rows]) for name in rows[0]}


def _of_tier(tier: str, member: str, values: list[Any]) -> Any:
    if member in ("reading", "writing"):
        return max(values, key=_STANDINGS.index)
    if member == "name" or (tier in _SHARED_TIERS and member in _SIZES):
        return max(values)
    return sum(values)


def _sum(values: Sequence[Any]) -> Any:
    if isinstance(values[0], dict):
        names = dict.fromkeys(name for value in values for name in value)
        return {name: _sum([value[name] for value in values if name in value]) for name in names}
    if isinstance(values[0], list):
        return [_sum(list(row)) for row in zip(*values, strict=True)]
    return round(sum(values), 3)
