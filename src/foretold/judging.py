"""What time, generations and the caller's own wishes say of a record that was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from foretold.contract.freshness import Judged, Verdict, accepts, judge
from foretold.contract.generations import is_alive
from foretold.contract.status import CacheStatus
from foretold.held import Held
from foretold.memo import Named


@dataclass(frozen=True, slots=True)
class Unusable:
    """Why a record can't answer, as Cache-Status tells it."""

    forwarded: str
    detail: str | None = None

    def told(self, status: CacheStatus) -> CacheStatus:
        return replace(status, forwarded=self.forwarded, detail=self.detail or status.detail)


def judged(held: Held, named: Named, *, now_ms: int, generations: Mapping[str, str]) -> Judged | Unusable:
    if held.alive_under is not generations:
        if not is_alive(held.tags, generations):
            return Unusable("uri-miss")
        held.alive_under = generations
    if named.usage and not held.has_usage:
        return Unusable("uri-miss", "lacks-usage")
    verdict = judge(held.made_ms, held.lifetimes, now_ms)
    wishes = named.controls
    if accepts(verdict, max_age_s=wishes.max_age_s, min_fresh_s=wishes.min_fresh_s, max_stale_s=wishes.max_stale_s):
        return verdict
    if verdict.verdict is Verdict.FRESH:
        return Unusable("request")
    return Unusable("stale" if verdict.verdict is Verdict.STALE else "uri-miss")
