"""One line for each query: when, how, what, how long.  No text of anybody's ever stands in it."""

from __future__ import annotations

import time
from typing import TextIO

from foretold.outcome import How, Outcome


class QueryLog:
    def __init__(self, out: TextIO):
        self._out = out

    def __call__(self, outcome: Outcome) -> None:
        self._out.write(line_of(outcome, time.strftime("%H:%M:%S")) + "\n")


def line_of(outcome: Outcome, clock: str) -> str:
    words = [
        clock,
        f"{outcome.how.value:<9}",
        _plain(outcome.model or outcome.operation or "-"),
        shown_ms(outcome.took_ms),
    ]
    if outcome.tier:
        words.append(outcome.tier)
    if outcome.stored and outcome.how is How.MISS:
        words.append("stored")
    if outcome.how in (How.HIT, How.STALE):
        words.append(f"saved {shown_ms(outcome.origin_ms)}")
    if outcome.how is How.ERROR:
        words.append(str(outcome.status))
    if outcome.detail:
        words.append(_plain(outcome.detail))
    if outcome.ended.value in ("cut", "gone"):
        words.append(outcome.ended.value)
    return "  ".join(words)


def shown_ms(milliseconds: float) -> str:
    if milliseconds < 10:
        return f"{milliseconds:.1f} ms"
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.2f} s"


def _plain(text: str) -> str:
    """A caller's word, cut and without characters that could forge a line or colour a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text[:80])
