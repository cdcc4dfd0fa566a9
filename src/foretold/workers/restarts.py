"""When a worker that died is started again, and with what."""

from __future__ import annotations

import signal
from collections import deque

WINDOW_S = 60.0
LONGEST_PAUSE_S = 30.0
WITHOUT_DISK_S = 600.0

_FIRST_PAUSE_S = 0.5
# What a store whose pages are damaged does to a process that reads them.
_OF_MEMORY = frozenset([signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT])


class Deaths:
    """Those of one worker.  The first within a minute costs nothing, each further one twice the pause."""

    def __init__(self) -> None:
        self._at_s: deque[float] = deque(maxlen=16)
        self._of_memory_s: deque[float] = deque(maxlen=2)
        self._without_disk_until_s = 0.0

    def died(self, code: int, *, now_s: float) -> float:
        """How long to wait before it is started again; `code` is negative for a signal."""
        self._at_s.append(now_s)
        if -code in _OF_MEMORY:
            self._of_memory_s.append(now_s)
            if len(self._of_memory_s) == 2 and now_s - self._of_memory_s[0] < WINDOW_S:
                self._without_disk_until_s = now_s + WITHOUT_DISK_S
        recent = sum(now_s - at_s < WINDOW_S for at_s in self._at_s)
        return 0.0 if recent <= 1 else min(LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** (recent - 2))

    def is_without_disk(self, *, now_s: float) -> bool:
        """Whether it died twice within a minute of what a damaged store does; then it goes without for a while."""
        return now_s < self._without_disk_until_s
