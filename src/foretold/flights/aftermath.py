"""What ended flights leave behind for later callers of their keys, for moments (rule L1)."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from foretold.contract.endings import Ending, Later

# A longer answer is not told again: the next caller asks anew.
LONGEST_TOLD_BYTES = 1024 * 1024
# What a flight takes beside its bytes, roughly.
MARK_BYTES = 8192

F = TypeVar("F")
# A key, and whether the route's further origins are asked where the first one fails.
Place = tuple[str, bool]


def monotonic_ms() -> int:
    """Milliseconds that only go forward, and with no wall clock."""
    return time.monotonic_ns() // 1_000_000


class Mark(NamedTuple, Generic[F]):
    """`flight` is the one whose outcome is told again, None where later callers fly alone."""

    flight: F | None
    until_ms: int
    is_alive: Callable[[], bool]
    cost: int


class Aftermath(Generic[F]):
    """Bounded in number and bytes: the oldest are forgotten first, which costs a flight more and nothing else."""

    def __init__(self, now_ms: Callable[[], int], *, most: int = 10_000, limit_bytes: int = 16 * 1024 * 1024):
        """`now_ms` never goes back."""
        self.held_bytes = 0
        self._now_ms = now_ms
        self._most = most
        self._limit_bytes = limit_bytes
        self._marks: OrderedDict[Place, Mark[F]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._marks)

    def leave(
        self,
        place: Place,
        ending: Ending | None,
        flight: F,
        *,
        came_bytes: int,
        is_alive: Callable[[], bool],
        own_bytes: int = 0,
    ) -> None:
        """Takes the place of what an earlier flight left; `is_alive` says whether no purge came since it began.

        `came_bytes` are those of the answer's body, `own_bytes` what else the flight holds.
        """
        self._drop(place)
        if ending is None or ending.later not in (Later.SAME, Later.ALONE):
            return
        until_ms = self._now_ms() + ending.later_s * 1000
        if ending.later is Later.ALONE:
            mark: Mark[F] = Mark(None, until_ms, is_alive, MARK_BYTES + own_bytes)
        elif came_bytes <= LONGEST_TOLD_BYTES:
            # The body, and perhaps the shapes that later callers want of it.
            mark = Mark(flight, until_ms, is_alive, MARK_BYTES + own_bytes + 3 * came_bytes)
        else:
            return
        self._marks[place] = mark
        self.held_bytes += mark.cost
        self._forget_the_oldest()

    def of(self, place: Place) -> Mark[F] | None:
        mark = self._marks.get(place)
        if mark is not None and (self._now_ms() >= mark.until_ms or not mark.is_alive()):
            self._drop(place)
            return None
        return mark

    def forget(self, key: str) -> None:
        self._drop((key, True))
        self._drop((key, False))

    def clear(self) -> None:
        self._marks.clear()
        self.held_bytes = 0

    def _forget_the_oldest(self) -> None:
        now_ms = self._now_ms()
        while self._marks:
            place, oldest = next(iter(self._marks.items()))
            if oldest.until_ms > now_ms and self.held_bytes <= self._limit_bytes and len(self._marks) <= self._most:
                return
            self._drop(place)

    def _drop(self, place: Place) -> None:
        mark = self._marks.pop(place, None)
        if mark is not None:
            self.held_bytes -= mark.cost
