"""A record in memory, opened once: only what answering needs, and of equal parts only one.

Its sealed bytes lie in the tiers below; here their header would be half of what a short answer takes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from sys import intern
from typing import Any, TypeVar

from foretold.contract.freshness import Lifetimes
from foretold.contract.record import Record
from foretold.halves import Halves

V = TypeVar("V", bound=Hashable)


class Held:
    """`digest` are the first 16 hex digits of the body's; `ready` are answers made of it, by what was asked (ready.py);
    `pieces` those that stand among others, by form (batches.py);
    `alive_under` is the epoch of the generations under which it was last found alive.
    """

    __slots__ = (
        "alive_under",
        "body",
        "content_type",
        "digest",
        "has_usage",
        "headers",
        "is_negative",
        "key",
        "lifetimes",
        "made_ms",
        "namespace",
        "operation",
        "pieces",
        "ready",
        "shape",
        "status",
        "tags",
        "took_ms",
    )

    def __init__(self, record: Record, body_sha256: str, shared: Shared):
        self.body = record.body
        self.digest = body_sha256[:16]
        self.content_type = intern(record.content_type)
        self.has_usage = "usage" in record.has
        self.headers = shared.one(record.headers)
        self.is_negative = record.kind == "negative"
        self.key = record.key
        self.lifetimes = shared.one(lifetimes_of(record))
        self.made_ms = record.made_ms
        self.namespace = shared.one(record.namespace)
        self.operation = intern(record.operation)
        self.shape = intern(record.shape)
        self.status = record.status
        self.tags: Mapping[str, str] = shared.tags(record.tags)
        self.took_ms = record.took_ms
        self.ready: dict[tuple[bool, bool, bool, str | None, str | None], Any] | None = None
        self.pieces: dict[str, Any] | None = None
        self.alive_under = 0

    def told(self) -> dict[str, object]:
        """What is known of the record here, by the names of rule R2."""
        return {
            "key": self.key,
            "namespace": self.namespace,
            "operation": self.operation,
            "kind": "negative" if self.is_negative else "answer",
            "made_ms": self.made_ms,
            "fresh_s": self.lifetimes.fresh_s,
            "stale_while_revalidate_s": self.lifetimes.stale_while_revalidate_s,
            "stale_if_error_s": self.lifetimes.stale_if_error_s,
            "status": self.status,
            "content_type": self.content_type,
            "headers": self.headers,
            "shape": self.shape,
            "has": ["usage"] if self.has_usage else [],
            "took_ms": self.took_ms,
            "tags": dict(self.tags),
        }


class Shared:
    """The first of equal values, for all who hold one; forgets what is not met again."""

    def __init__(self, limit_bytes: int = 8 * 2**20):
        self._values: Halves[Hashable] = Halves(limit_bytes)
        self._tags: Halves[Mapping[str, str]] = Halves(limit_bytes)

    def one(self, value: V) -> V:
        found = self._values.get(value)
        if found is None:
            self._values.put(value, value, cost=_cost_of(value))
            return value
        return found  # type: ignore[return-value]

    def tags(self, tags: dict[str, str]) -> Mapping[str, str]:
        key = tuple(tags.items())
        found = self._tags.get(key)
        if found is None:
            self._tags.put(key, tags, cost=_cost_of(key))
            return tags
        return found


def _cost_of(value: object) -> int:
    """Roughly the bytes a text, or a tuple of them, takes with its place."""
    if isinstance(value, tuple):
        return 100 + sum(_cost_of(part) for part in value)
    return 100 + (len(value) if isinstance(value, str) else 0)


def lifetimes_of(record: Record) -> Lifetimes:
    return Lifetimes(record.fresh_s, record.stale_while_revalidate_s, record.stale_if_error_s)
