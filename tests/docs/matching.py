"""Whether what a program printed is what a page shows, where `…` stands for whatever varies."""

from __future__ import annotations

ANYTHING = "…"


def matches(shown: str, real: str) -> bool:
    """A line that is only `…` stands for any lines, within a line it stands for any text.

    Runs of spaces and tabs are one space, since columns are set by tabs; blank lines around don't count.
    """
    return _lines_match(_plain(shown), _plain(real))


def _plain(text: str) -> list[str]:
    lines = [" ".join(line.split()) for line in text.replace("\r\n", "\n").split("\n")]
    while lines and not lines[0]:
        lines.pop(0)
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _lines_match(shown: list[str], real: list[str]) -> bool:
    """Row by row: `reached` are the counts of real lines that the shown lines so far can stand for."""
    reached = {0}
    for line in shown:
        if line == ANYTHING:
            reached = set(range(min(reached), len(real) + 1)) if reached else set()
        else:
            reached = {at + 1 for at in reached if at < len(real) and _line_matches(line, real[at])}
    return len(real) in reached


def _line_matches(shown: str, real: str) -> bool:
    first, *pieces = shown.split(ANYTHING)
    if not pieces:
        return shown == real
    *middle, last = pieces
    if not real.startswith(first) or not real.endswith(last):
        return False
    at = len(first)
    for piece in middle:
        found = real.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return at <= len(real) - len(last)
