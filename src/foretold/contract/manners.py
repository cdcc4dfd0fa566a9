"""How we treat upstreams: retries, fallback, and what an edge keeps of a node's answers (rule U1)."""

from __future__ import annotations

import re
from enum import StrEnum

from foretold.contract.status import OTHER_REVISION

MAX_RETRIES = 2
LONGEST_WAIT_S = 5

_SECONDS = re.compile(r"[0-9]{1,9}")
_MEMBER = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*")+')
_PARAMETER = re.compile(r'(?:[^;"]|"(?:[^"\\]|\\.)*")+')


class Failure(StrEnum):
    """How an origin failed, where it gave no status."""

    CONNECT = "connect"
    TIMEOUT = "timeout"
    CUT = "cut"


def retry_after_s(
    *,
    failure: Failure | None,
    status: int | None,
    retry_after: str | None,
    sent_any: bool,
    retries_done: int,
    chance: float,
    once: bool,
) -> float | None:
    """How long to wait before asking the same origin again; None: don't.

    `chance` in [0, 1) spreads the waits.  Never after a time-out or a 500: the origin may have done the work.  With
    `once`, asking may have side effects: only what was never sent is tried again.
    """
    if retries_done >= MAX_RETRIES or sent_any:
        return None
    jittered: float = (0.1 * 2**retries_done) * (0.5 + chance)
    if failure is Failure.CONNECT:
        return jittered
    if once:
        return None
    if failure is not None:
        return jittered if failure is Failure.CUT and retries_done == 0 else None
    asked_s = int(retry_after) if retry_after and _SECONDS.fullmatch(retry_after.strip(" \t")) else None
    if status in (429, 503) and asked_s is not None:
        return asked_s + jittered if asked_s <= LONGEST_WAIT_S else None
    if status in (502, 503, 504):
        return jittered
    return None


def may_fall_back(*, failure: Failure | None, status: int | None, once: bool) -> bool:
    """Whether the next origin, or a stale record, may answer instead; never what may be asked only `once`."""
    if once:
        return False
    return failure is not None or status == 429 or (status is not None and status >= 500)


def edge_may_store(cache_status: str | None) -> bool:
    """Whether an edge keeps an answer that came through a node: only what the node itself vouches for."""
    ours = [m for m in _members(cache_status or "") if m[:1] == ["Foretold"]]
    if not ours:
        return True
    _, *parameters = ours[-1]
    if "detail=fallback" in parameters or f"detail={OTHER_REVISION}" in parameters:
        return False
    return any(word in parameters for word in ("hit", "stored", "collapsed"))


def _members(cache_status: str) -> list[list[str]]:
    return [
        [part.strip(" \t") for part in _PARAMETER.findall(member)]
        for member in _MEMBER.findall(cache_status)
        if member.strip()
    ]
