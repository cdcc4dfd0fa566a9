"""How a flight can end, and what that means for those who wait and those who come later (rule L1)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

HIT_FOR_MISS_S = 5
BACKOFF_S = 1


class Attached(StrEnum):
    """What callers get who ride along."""

    ANSWER = "answer"
    RETRY = "retry"
    ERROR = "error"
    BROKEN = "broken"


class Later(StrEnum):
    """What callers get who come after."""

    HIT = "hit"
    ALONE = "alone"
    SAME = "same"
    FLY = "fly"


@dataclass(frozen=True, slots=True)
class Ending:
    attached: Attached
    later: Later
    later_s: int = 0


def ending(
    *, status: int | None, clean: bool, storable: bool, sent_any: bool, retried: bool, fallback: bool = False
) -> Ending:
    """The ending of a flight.

    `status` is None if no answer came; `clean` says that its end was proved; `sent_any` that bytes of it went out;
    `fallback` that another origin answered, because the first one failed.
    """
    if status is None:
        return Ending(Attached.ERROR, Later.SAME, BACKOFF_S)
    if not clean:
        if sent_any:
            return Ending(Attached.BROKEN, Later.FLY)
        return Ending(Attached.ERROR if retried else Attached.RETRY, Later.FLY)
    if fallback or status == 429 or status >= 500:
        return Ending(Attached.ANSWER, Later.SAME, BACKOFF_S)
    if status >= 400:
        return Ending(Attached.ANSWER, Later.FLY)
    if storable:
        return Ending(Attached.ANSWER, Later.HIT)
    return Ending(Attached.ANSWER, Later.ALONE, HIT_FOR_MISS_S)
