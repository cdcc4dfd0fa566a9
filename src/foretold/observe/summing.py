"""The counts of several processes as those of one node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# Told by each process of a thing that all share.
_SHARED_TIERS = frozenset(["disk"])
_NOW = ("flights", "held_bytes", "limit_bytes")
_THE_SAME = ("version", "mode", "at_most_ms")


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
    tiers = [{name: 0 if name in _NOW else value for name, value in tier.items()} for tier in told["tiers"]]
    return told | {"flights": 0, "tiers": tiers}


def _tier(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    is_shared = rows[0]["name"] in _SHARED_TIERS
    return {
        name: max(row[name] for row in rows)
        if is_shared and name in _NOW
        else value
        if isinstance(value, str)
        else sum(row[name] for row in rows)
        for name, value in rows[0].items()
    }


def _sum(values: Sequence[Any]) -> Any:
    if isinstance(values[0], dict):
        names = dict.fromkeys(name for value in values for name in value)
        return {name: _sum([value[name] for value in values if name in value]) for name in names}
    if isinstance(values[0], list):
        return [_sum(list(row)) for row in zip(*values, strict=True)]
    return round(sum(values), 3)
