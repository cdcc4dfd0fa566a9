"""What time, generations and the caller's own wishes say of a record that was found."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from foretold.contract.controls import Controls
from foretold.contract.freshness import Judged, Verdict, accepts, judge, may_replace_error, may_revalidate_behind
from foretold.contract.generations import is_alive
from foretold.contract.status import CacheStatus
from foretold.memo import Named
from foretold.ports import Table
from foretold.tiers.held import Held


@dataclass(frozen=True, slots=True)
class Unusable:
    """Why a record can't answer, as Cache-Status tells it; it `may_stand_in` if the origin fails."""

    forwarded: str
    detail: str | None = None
    may_stand_in: bool = False

    def told(self, status: CacheStatus) -> CacheStatus:
        return replace(status, forwarded=self.forwarded, detail=self.detail or status.detail)


def judged(held: Held, named: Named, *, now_ms: int, generations: Table) -> Judged | Unusable:
    """What is said while nothing is known of the origin (rules F1, C1)."""
    if held.alive_under != generations.epoch:
        if not is_alive(held.tags, generations):
            return Unusable("uri-miss")
        held.alive_under = generations.epoch
    if named.usage and not held.has_usage:
        return Unusable("uri-miss", "lacks-usage")
    verdict = judge(held.made_ms, held.lifetimes, now_ms)
    wishes = named.controls
    if accepts(verdict, max_age_s=wishes.max_age_s, min_fresh_s=wishes.min_fresh_s, max_stale_s=wishes.max_stale_s):
        return verdict
    if verdict.verdict is Verdict.FRESH:
        return Unusable("request")
    if verdict.verdict is Verdict.DEAD:
        return Unusable("uri-miss")
    if _leaves_it_to_us(verdict, wishes):
        if may_revalidate_behind(verdict, held.lifetimes):
            return verdict
        return Unusable("stale", may_stand_in=may_replace_error(verdict, held.lifetimes))
    return Unusable("stale")


def judged_on_failure(held: Held, named: Named, *, now_ms: int, generations: Table) -> Judged | None:
    """What time says of a record that may be given instead of an origin's failure; None if it may not."""
    verdict = judged(held, named, now_ms=now_ms, generations=generations)
    if isinstance(verdict, Unusable):
        return judge(held.made_ms, held.lifetimes, now_ms) if verdict.may_stand_in else None
    return verdict


def _leaves_it_to_us(verdict: Judged, wishes: Controls) -> bool:
    """Whether a request says nothing against a record that is so stale."""
    if wishes.no_cache or wishes.max_age_s is not None or wishes.min_fresh_s > 0:
        return False
    return wishes.max_stale_s is None or -verdict.ttl_s <= wishes.max_stale_s
