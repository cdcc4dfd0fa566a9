"""Whether a near store is quick enough to be read within the event loop."""

from __future__ import annotations

import logging

SLOW_S = 0.005
LAST = 20
SLOW_ONES = 5

_MASK = (1 << LAST) - 1
_log = logging.getLogger("foretold")


class Pace:
    """Slow once 5 of the last 20 reads took over 5 ms, or one longer than the deadline; quick after 20 quick ones."""

    def __init__(self, what: str, *, deadline_s: float):
        """`what` begins the lines that the log gets, such as "the disk tier"."""
        self.is_slow = False
        self._what = what
        self._deadline_s = deadline_s
        # A bit for each of the last ones, 1 where it was slow.
        self._last = 0

    def took(self, seconds: float) -> None:
        if seconds <= SLOW_S and not self._last:
            return
        self._last = self._last << 1 & _MASK | (seconds > SLOW_S)
        if not self.is_slow and (self._last.bit_count() >= SLOW_ONES or seconds > self._deadline_s):
            self.is_slow = True
            _log.warning("%s is slow (%.0f ms): it is read in threads now, with a deadline", self._what, seconds * 1000)
        elif self.is_slow and not self._last:
            self.is_slow = False
            _log.warning("%s is quick again", self._what)
