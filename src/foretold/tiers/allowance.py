"""How much each owner has lately written to a store that evicts by age alone, so that none can push out all the others.

Counting what each still holds would cost an index of its own.  Writing is what pushes out: whoever writes no more than
a share of the limit a day leaves the rest of the store's last day to the others.
"""

from __future__ import annotations

from collections.abc import Callable

WINDOW_MS = 12 * 3600 * 1000


class Allowance:
    def __init__(self, limit_bytes: int, *, now_ms: Callable[[], int]):
        self._limit_bytes = limit_bytes
        self._now_ms = now_ms
        self._percent = 100
        self._now: dict[str, int] = {}
        self._before: dict[str, int] = {}
        self._began_ms = now_ms()

    def share(self, percent: int) -> None:
        """From now on an owner may write so many hundredths of the limit a day; 100 counts nothing."""
        self._percent = percent
        if percent >= 100:
            self._now, self._before = {}, {}

    def take(self, owner: str, length: int) -> bool:
        """Whether an owner may write so many bytes; if so they are counted."""
        if self._percent >= 100:
            return True
        self._turn()
        written = self._now.get(owner, 0) + self._before.get(owner, 0)
        if written + length > self._limit_bytes * self._percent // 100:
            return False
        self._now[owner] = self._now.get(owner, 0) + length
        return True

    def _turn(self) -> None:
        """Forgets by half days."""
        now_ms = self._now_ms()
        if 0 <= now_ms - self._began_ms < WINDOW_MS:
            return
        self._before = self._now if WINDOW_MS <= now_ms - self._began_ms < 2 * WINDOW_MS else {}
        self._now, self._began_ms = {}, now_ms
