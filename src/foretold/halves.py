"""A bounded mapping for what is met again and again."""

from __future__ import annotations

from typing import Generic, TypeVar

V = TypeVar("V")


class Halves(Generic[V]):
    """A bounded mapping that forgets its older half at once: no bookkeeping on a look-up."""

    def __init__(self, limit: int):
        """`limit` bounds the sum of the costs given to `put`."""
        self._half_limit = limit // 2
        self._young: dict[object, tuple[V, int]] = {}
        self._old: dict[object, tuple[V, int]] = {}
        self._young_cost = 0

    def get(self, key: object) -> V | None:
        found = self._young.get(key)
        if found is not None:
            return found[0]
        found = self._old.get(key)
        if found is None:
            return None
        self.put(key, found[0], cost=found[1])
        return found[0]

    def put(self, key: object, value: V, *, cost: int) -> None:
        if self._young_cost + cost > self._half_limit:
            self._old, self._young, self._young_cost = self._young, {}, 0
        if cost <= self._half_limit:
            self._young[key] = (value, cost)
            self._young_cost += cost

    def clear(self) -> None:
        self._young, self._old, self._young_cost = {}, {}, 0

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())
