"""Which keys are being refreshed behind their callers' backs, and which rest because that just failed (rule F1)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from foretold.contract.endings import BACKOFF_S

# Callers never wait for a refresh, so nothing else bounds how many queries are held for them.
MOST_AT_ONCE = 256
TOGETHER_BYTES = 64 * 1024 * 1024
MOST_RESTING = 10_000


class Refreshing:
    """Counts `refreshed`, those that brought a new record, and `failed`, those that left the old one."""

    def __init__(self, now_ms: Callable[[], int]):
        """`now_ms` never goes back."""
        self.refreshed = 0
        self.failed = 0
        self._now_ms = now_ms
        self._bytes: dict[str, int] = {}
        self._together_bytes = 0
        self._resting: OrderedDict[str, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._bytes)

    def may_begin(self, key: str) -> bool:
        """Whether a key neither flies nor rests, and there is room."""
        return (
            key not in self._bytes
            and self._resting.get(key, 0) <= self._now_ms()
            and len(self._bytes) < MOST_AT_ONCE
            and self._together_bytes < TOGETHER_BYTES
        )

    def begins(self, key: str, *, held_bytes: int) -> None:
        """`held_bytes`: of the query, for as long as it flies."""
        self._resting.pop(key, None)
        self._bytes[key] = held_bytes
        self._together_bytes += held_bytes

    def ends(self, key: str, *, is_kept: bool) -> None:
        self._leaves(key)
        if is_kept:
            self.refreshed += 1
            return
        self.failed += 1
        self._resting[key] = self._now_ms() + BACKOFF_S * 1000
        if len(self._resting) > MOST_RESTING:
            self._resting.popitem(last=False)

    def is_cancelled(self, key: str) -> None:
        """The node stops: neither a success nor a failure."""
        self._leaves(key)

    def _leaves(self, key: str) -> None:
        self._together_bytes -= self._bytes.pop(key)
