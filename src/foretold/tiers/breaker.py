"""Leaves out what fails, and tries it again after a growing pause.

    working ── 5 of the last 20 failed ──▶ left out ── a probe succeeds ──▶ on trial ── 5 in a row succeed ──▶ working
                                               ▲                               │
                                               └──────────── one fails ────────┘

The pause before a probe is 1 s, then 2, 4 … 30; only work that passed its trial makes it short again.  What fails at
once keeps nobody waiting: it is called failing, until 20 in a row have succeeded, and goes on being tried.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import StrEnum

LAST = 20
FAILURES = 5
TRIAL = 5
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0

_MASK = (1 << LAST) - 1
_log = logging.getLogger("foretold")


class Standing(StrEnum):
    WORKING = "working"
    FAILING = "failing"
    LEFT_OUT = "left out"
    ON_TRIAL = "on trial"


class Breaker:
    def __init__(self, what: str, *, now_s: Callable[[], float]):
        """`what` begins the lines that the log gets, such as "reading the disk tier"."""
        self.standing = Standing.WORKING
        self.opened = 0
        self._what = what
        self._now_s = now_s
        # A bit for each of the last ones, 1 where it failed.
        self._last = 0
        self._trial = 0
        self._is_probed = False
        self._pause_s = FIRST_PAUSE_S
        self._again_s = 0.0

    @property
    def lets_through(self) -> bool:
        return self.standing is not Standing.LEFT_OUT

    @property
    def spare(self) -> int:
        """How many may fail before it is left out."""
        if self.standing is Standing.WORKING:
            return FAILURES - self._last.bit_count()
        return 1 if self.lets_through else 0

    @property
    def is_probe_due(self) -> bool:
        return self.standing is Standing.LEFT_OUT and not self._is_probed and self._now_s() >= self._again_s

    def take_probe(self) -> bool:
        """Whether a probe is due; then whoever asked makes it, alone, and tells `probed`."""
        if not self.is_probe_due:
            return False
        self._is_probed = True
        return True

    def probed(self, why_not: str | None) -> None:
        """The probe has ended; `why_not` says how it failed, if it did."""
        self._is_probed = False
        if why_not is None:
            self.standing, self._trial = Standing.ON_TRIAL, 0
        else:
            self._leave_out()

    def succeeded(self) -> None:
        if self.standing is Standing.WORKING:
            if self._last:
                self._last = self._last << 1 & _MASK
        elif self.standing is Standing.ON_TRIAL:
            self._trial += 1
            if self._trial == TRIAL:
                self.standing, self._last, self._pause_s = Standing.WORKING, 0, FIRST_PAUSE_S
                _log.warning("%s works again", self._what)
        elif self.standing is Standing.FAILING:
            self._last = self._last << 1 & _MASK
            if not self._last:
                self.standing = Standing.WORKING
                _log.warning("%s works again", self._what)

    def failed_at_once(self, why: str) -> None:
        """Something failed that nobody waited for."""
        self._last = self._last << 1 & _MASK | 1
        if self.standing is Standing.ON_TRIAL:
            self.standing = Standing.FAILING
        elif self.standing is Standing.WORKING and self._last.bit_count() >= FAILURES:
            self.standing = Standing.FAILING
            _log.warning("%s fails (%s): the node goes on, and goes on trying", self._what, why)

    def failed(self, why: str) -> None:
        if self.standing is Standing.ON_TRIAL:
            self._leave_out()
        elif self.standing is not Standing.LEFT_OUT:
            self._last = self._last << 1 & _MASK | 1
            if self._last.bit_count() >= FAILURES:
                self.opened += 1
                self._leave_out()
                _log.warning(
                    "%s fails (%s): the node goes on without, and tries again after %g s and longer pauses",
                    self._what,
                    why,
                    FIRST_PAUSE_S,
                )

    def _leave_out(self) -> None:
        self.standing = Standing.LEFT_OUT
        self._again_s = self._now_s() + self._pause_s
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
