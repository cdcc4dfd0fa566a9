"""How many calls may still be made: an account has 1,200 in five minutes, for all that use its API."""

from __future__ import annotations

import time
from collections.abc import Callable

CALLS = 1200
WINDOW_S = 300.0
# The rest is for who deploys, looks, or runs another node.
SHARE = 0.75
# Of what is left at once, so much is kept for writes and purges.
RESERVE = 0.2


class Budget:
    """Calls that come back evenly; all of the share may be used at once after a pause."""

    def __init__(self, *, processes: int = 1, now_s: Callable[[], float] = time.monotonic):
        """`processes` share it."""
        self._most = max(1.0, CALLS * SHARE / processes)
        self._a_second = self._most / WINDOW_S
        self._left = self._most
        self._now_s = now_s
        self._at_s = now_s()

    def take(self) -> bool:
        """Whether a call that must be made may be made now; if so it is counted."""
        return self._take(least=1.0)

    def take_to_read(self) -> bool:
        """The same for a call without which things go on, if slower."""
        return self._take(least=1.0 + self._most * RESERVE)

    def _take(self, *, least: float) -> bool:
        now_s = self._now_s()
        self._left = min(self._most, self._left + (now_s - self._at_s) * self._a_second)
        self._at_s = now_s
        if self._left < least:
            return False
        self._left -= 1
        return True
