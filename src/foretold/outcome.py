"""The account of one query (rule S3): exactly one per request for a prediction."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class How(StrEnum):
    HIT = "hit"
    STALE = "stale"
    COLLAPSED = "collapsed"
    MISS = "miss"
    PASS = "pass"  # noqa: S105 - a word of the glossary
    ERROR = "error"


class Ended(StrEnum):
    """WHOLE: all of it went out. CUT: the origin broke off. GONE: the caller left. ERROR: an error was told instead."""

    WHOLE = "whole"
    CUT = "cut"
    GONE = "gone"
    ERROR = "error"


@dataclass(slots=True)
class Outcome:
    """Filled in as a query lives; accounted once, when its answer has ended.  Times are monotonic milliseconds.

    `would_be` and `would_save_ms` are set by a node that only observes.
    """

    began_ms: float
    how: How = How.ERROR
    ended: Ended = Ended.ERROR
    operation: str = ""
    model: str = ""
    route: str = ""
    tier: str = ""
    status: int = 0
    detail: str | None = None
    stored: bool = False
    took_ms: float = 0.0
    origin_ms: int = 0
    body_bytes: int = 0
    would_be: How | None = None
    would_save_ms: int = 0
