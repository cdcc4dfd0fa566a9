"""What time says of a record (rules F1, F2 and C1)."""

from __future__ import annotations

import re
from calendar import timegm
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

CEILING_S = 2_592_000
AHEAD_ALLOWED_MS = 5_000
KV_LEAST_S = 60

_SECONDS = re.compile(r"[0-9]{1,10}")
_IMF_FIXDATE = re.compile(
    r"[A-Z][a-z]{2}, ([0-9]{2}) ([A-Z][a-z]{2}) (19[7-9][0-9]|[2-9][0-9]{3}) ([0-9]{2}):([0-9]{2}):([0-9]{2}) GMT"
)
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


class Verdict(StrEnum):
    FRESH = "fresh"
    STALE = "stale"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """Whole seconds; 0 is a value."""

    fresh_s: int = 86_400
    stale_while_revalidate_s: int = 86_400
    stale_if_error_s: int = 604_800


class Judged(NamedTuple):
    """`ttl_s` is above 0 while a record is fresh, and counts down from 0 once it is stale."""

    verdict: Verdict
    age_s: int
    ttl_s: int


def age_s(made_ms: int, now_ms: int) -> int:
    """Whole seconds since a record was made; 0 if the writer's clock is ahead of ours."""
    return max(0, (now_ms - made_ms) // 1000)


def judge(made_ms: int, lifetimes: Lifetimes, now_ms: int) -> Judged:
    age = age_s(made_ms, now_ms)
    ttl = 0 if made_ms - now_ms > AHEAD_ALLOWED_MS else lifetimes.fresh_s - age
    if ttl > 0:
        return Judged(Verdict.FRESH, age, ttl)
    usable_s = lifetimes.fresh_s + max(lifetimes.stale_while_revalidate_s, lifetimes.stale_if_error_s)
    return Judged(Verdict.STALE if age < usable_s else Verdict.DEAD, age, ttl)


def may_revalidate_behind(judged: Judged, lifetimes: Lifetimes) -> bool:
    """Whether a stale record may be given while a new one is fetched."""
    return judged.verdict is Verdict.STALE and judged.age_s < lifetimes.fresh_s + lifetimes.stale_while_revalidate_s


def may_replace_error(judged: Judged, lifetimes: Lifetimes) -> bool:
    """Whether a stale record may be given because the origin failed."""
    return judged.verdict is Verdict.STALE and judged.age_s < lifetimes.fresh_s + lifetimes.stale_if_error_s


def accepts(
    judged: Judged, *, max_age_s: int | None = None, min_fresh_s: int = 0, max_stale_s: float | None = None
) -> bool:
    """Whether a request with these directives takes the record as it is (RFC 9111 section 5.2.1).

    `max_stale_s` is None if staleness isn't accepted, infinite if any is.
    """
    if max_age_s is not None and judged.age_s > max_age_s:
        return False
    if judged.verdict is Verdict.FRESH:
        return judged.ttl_s >= min_fresh_s
    return (
        judged.verdict is Verdict.STALE
        and max_stale_s is not None
        and min_fresh_s == 0
        and -judged.ttl_s <= max_stale_s
    )


def kv_expiration_s(judged: Judged, lifetimes: Lifetimes) -> int:
    """How long KV keeps a record: until it is dead and a minute more, at least a minute."""
    usable_s = lifetimes.fresh_s + max(lifetimes.stale_while_revalidate_s, lifetimes.stale_if_error_s)
    return max(KV_LEAST_S, usable_s - judged.age_s + KV_LEAST_S)


def made_ms(last_byte_ms: int, age_header: str | None) -> int:
    """When an answer was made: its last byte's time, minus the Age its origin gave."""
    return last_byte_ms - _age_s(age_header) * 1000


def upstream_lifetimes(
    headers: Mapping[str, str], lifetimes: Lifetimes, *, shared_scope: bool, keyed: frozenset[str], now_ms: int
) -> Lifetimes | None:
    """The lifetimes an upstream's own directives leave, as a private cache of one namespace (F2); None: not stored.

    `headers` have names in lower case; `keyed` are the request headers that are part of the key.  Without max-age,
    Expires less Date counts; an Expires that can't be read has passed (RFC 9111 section 5.3), a Date that can't is now.
    """
    directives = _directives(headers.get("cache-control", ""))
    if "no-store" in directives or "no-cache" in directives:
        return None
    if "private" in directives and shared_scope:
        return None
    vary = {name.strip(" \t").lower() for name in headers.get("vary", "").split(",")} - {"", "accept-encoding"}
    if not vary <= keyed:
        return None
    if "max-age" in directives:
        allowed_s = _seconds(directives["max-age"])
    elif "expires" in headers:
        date_s = _http_date_s(headers.get("date", "")) or now_ms // 1000
        allowed_s = _http_date_s(headers["expires"]) - date_s
    else:
        return _with_windows_of(directives, lifetimes)
    if allowed_s <= _age_s(headers.get("age")):
        return None
    return _with_windows_of(directives, replace(lifetimes, fresh_s=min(lifetimes.fresh_s, allowed_s)))


def _with_windows_of(directives: Mapping[str, str], lifetimes: Lifetimes) -> Lifetimes:
    """Stale windows no longer than an upstream allows (RFC 9111 section 5.2.2.2, RFC 5861)."""
    if "must-revalidate" in directives:
        return Lifetimes(lifetimes.fresh_s, 0, 0)
    behind_s, on_error_s = lifetimes.stale_while_revalidate_s, lifetimes.stale_if_error_s
    if "stale-while-revalidate" in directives:
        behind_s = min(behind_s, _seconds(directives["stale-while-revalidate"]))
    if "stale-if-error" in directives:
        on_error_s = min(on_error_s, _seconds(directives["stale-if-error"]))
    return Lifetimes(lifetimes.fresh_s, behind_s, on_error_s)


def _age_s(age_header: str | None) -> int:
    """The first of several Ages counts (RFC 9111 section 5.1)."""
    return _seconds((age_header or "").partition(",")[0])


def _seconds(text: str) -> int:
    """A number of seconds; 0 for what is none."""
    text = text.strip(" \t")
    return int(text) if _SECONDS.fullmatch(text) else 0


def _http_date_s(text: str) -> int:
    """Unix seconds of an IMF-fixdate since 1970 (RFC 9110 section 5.6.7); 0, long past, for anything else."""
    found = _IMF_FIXDATE.fullmatch(text.strip(" \t"))
    if found is None or found[2] not in _MONTHS:
        return 0
    day, month, year, hour, minute, second = found.groups()
    return timegm((int(year), _MONTHS.index(month) + 1, int(day), int(hour), int(minute), int(second)))


def _directives(value: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in value.split(","):
        name, _, argument = part.partition("=")
        found.setdefault(name.strip(" \t").lower(), argument.strip(" \t").strip('"'))
    return found
