"""How soon a process that fails may be started again, and when to stop trying for a while."""

from __future__ import annotations

from collections import deque

MOST_FAILURES = 5
WINDOW_S = 600
REST_S = 60
_FIRST_PAUSE_S = 0.25


class Restarts:
    """Remembers failures of the last 10 minutes; clock and chance are given.

    After the fifth it refuses for a minute, then lets one start be tried: if that fails too, it refuses again.
    """

    def __init__(self) -> None:
        self._failed_at_s: deque[float] = deque(maxlen=MOST_FAILURES)
        self._not_before_s = 0.0
        self._why = ""

    def failed(self, why: str, *, now_s: float, chance: float) -> None:
        """`chance` in [0, 1) spreads the pauses of many hosts."""
        self._forget_old(now_s)
        self._failed_at_s.append(now_s)
        self._why = why
        pause_s = _FIRST_PAUSE_S * 2 ** (len(self._failed_at_s) - 1)
        self._not_before_s = now_s + pause_s * (0.5 + chance / 2)

    def refusal(self, *, now_s: float) -> str | None:
        """Why nothing is tried now, or None."""
        self._forget_old(now_s)
        if len(self._failed_at_s) < MOST_FAILURES or now_s >= self._failed_at_s[-1] + REST_S:
            return None
        wait_s = self._failed_at_s[-1] + REST_S - now_s
        return (
            f"it failed {MOST_FAILURES} times within 10 minutes and is tried again in {wait_s:.0f} s; last: {self._why}"
        )

    def pause_s(self, *, now_s: float) -> float:
        """How long to wait before the next start."""
        return max(0.0, self._not_before_s - now_s)

    def _forget_old(self, now_s: float) -> None:
        while self._failed_at_s and self._failed_at_s[0] <= now_s - WINDOW_S:
            self._failed_at_s.popleft()
