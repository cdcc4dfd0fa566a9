"""The answer of a record, made ready once and given again and again (rules P3, S1, S2).

A hot record is asked for many times a second, and all that changes from one second to the next is its age.  So body and
header lines are kept beside the record as they go out, by shape, and only the age is written anew.
"""

from __future__ import annotations

import dataclasses
import secrets
from functools import lru_cache

from foretold.answers.answer import Hit, lines_of, raw
from foretold.contract.controls import Controls
from foretold.contract.freshness import Judged, Verdict, may_revalidate_behind
from foretold.contract.status import CacheStatus, client_cache_control, etag, etag_matches
from foretold.memo import Named
from foretold.outcome import How
from foretold.ports import Table
from foretold.projections import calls, shapes
from foretold.tiers.held import Held
from foretold.tiers.order import Found, Tiers

# Measured by bench/memory.py: a Ready and its lines, beside the body.
LINES_BYTES = 850
HIT_BYTES = 450
# Two shapes, with and without usage, safe or not, and two more of Workers AI; the rest are callers whose aliases can't
# be read.
MOST_PLACES = 16

_LINES = {
    is_safe: b"cf-aig-cache-status: HIT\r\netag: %b\r\ncache-control: "
    + client_cache_control("GET" if is_safe else "POST", hit=True).encode()
    + b"\r\n"
    for is_safe in (True, False)
}
_ERROR_LINES = b"cf-aig-cache-status: HIT\r\ncache-control: no-store\r\n"


class Ready:
    """`body` is None where it is the record's own bytes, or must be made for each delivery (`has_calls`).

    `lines` begin with what changes with the age, status and Age; from `fixed_at` on they stay; they are right from
    `since_ms` until the age changes at `until_ms`.  `hit` is an answer given twice in that time, good for whoever has
    the same wishes.  `next_body` is one with fresh ids, made beforehand for the next delivery.
    """

    __slots__ = (
        "body",
        "etag",
        "fixed_at",
        "has_calls",
        "hit",
        "lines",
        "next_body",
        "shape",
        "since_ms",
        "until_ms",
        "usage",
        "wishes",
    )

    def __init__(self, held: Held, named: Named):
        self.shape = held.shape if held.is_negative else shape_for(held.operation, held.shape, named.streamed)
        projection = named.projection
        self.usage = named.usage or self.shape == "whole" or projection is not None
        self.etag = etag(held.digest, self.shape if projection is None else f"{self.shape}-{projection}")
        recorded = held.body
        # Retold calls have no ids.
        self.has_calls = (
            held.operation == "chat" and not held.is_negative and projection is None and calls.has_calls(recorded)
        )
        self.body = None if self.has_calls else projected(held, self.shape, usage=self.usage, projection=projection)
        length = b"" if self.body is None else _length_line(self.body)
        if self.body is recorded or self.body == recorded:
            self.body = None
        is_retold = projection in shapes.RETOLD
        kind = held.content_type if self.shape == held.shape and not is_retold else content_type(self.shape)
        others = [header for header in held.headers if header[0] != "content-type"]
        self.fixed_at = 0
        self.lines = b"".join(
            (
                _ERROR_LINES if held.is_negative else _LINES[named.is_safe] % self.etag.encode(),
                _kind_line(kind),
                lines_of(raw(others)) if others else b"",
                length,
            )
        )
        self.next_body: bytes | None = None
        self.hit: Hit | None = None
        self.wishes: Controls | None = None
        self.since_ms = self.until_ms = 0

    @property
    def kept_bytes(self) -> int:
        return LINES_BYTES + (0 if self.body is None else len(self.body))

    def age(self, judged: Judged, named: Named, held: Held) -> None:
        """Writes the lines of this age."""
        self.hit = None
        aging = _aging(judged, named, held.key, detail="negative" if held.is_negative else named.detail)
        self.lines = aging + self.lines[self.fixed_at :]
        self.fixed_at = len(aging)


def _aging(judged: Judged, named: Named, key: str, *, detail: str | None) -> bytes:
    status = CacheStatus(
        hit=True,
        ttl_s=judged.ttl_s,
        key=None if named.route.shared else key,
        detail=detail,
        other_revision=named.is_other_revision,
    )
    return b"cache-status: %s\r\nage: %d\r\n" % (str(status).encode(), judged.age_s)


def again(held: Held, named: Named, *, now_ms: int, generations: Table) -> Hit | None:
    """The answer last given of a record, if all that it depended on is the same."""
    ready: Ready | None = None if held.ready is None else held.ready.get(named.place)
    if (
        ready is not None
        and ready.since_ms <= now_ms < ready.until_ms
        and ready.wishes is named.controls
        and held.alive_under == generations.epoch
        and named.if_none_match is None
    ):
        return ready.hit
    return None


def hit(found: Found, judged: Judged, named: Named, *, tiers: Tiers, now_ms: int) -> Hit:
    """The answer of a record: 304 where the caller's copy is the same."""
    ready, is_second = _aged(found, judged, named, tiers=tiers, now_ms=now_ms)
    answer = _answer(found, judged, named, ready)
    if is_second and found.is_in_memory and named.if_none_match is None and not ready.has_calls:
        if ready.hit is None and ready.wishes is None:
            tiers.grown(found.held, HIT_BYTES)
        ready.hit, ready.wishes = answer, named.controls
    return answer


def instead(found: Found, judged: Judged, named: Named, *, tiers: Tiers, now_ms: int) -> Hit:
    """The answer of a stale record whose origin has failed: for this caller only, and it says so."""
    ready, _ = _aged(found, judged, named, tiers=tiers, now_ms=now_ms)
    answer = _answer(found, judged, named, ready)
    told = _aging(judged, named, found.held.key, detail="stale-if-error")
    return dataclasses.replace(answer, lines=told + answer.lines[ready.fixed_at :], is_due=False)


def _aged(found: Found, judged: Judged, named: Named, *, tiers: Tiers, now_ms: int) -> tuple[Ready, bool]:
    """What lies ready of a record, its lines of this age; whether they were before."""
    held = found.held
    if held.ready is None:
        held.ready = {}
    ready: Ready | None = held.ready.get(named.place)
    if ready is None:
        ready = Ready(held, named)
        if len(held.ready) < MOST_PLACES:
            held.ready[named.place] = ready
            tiers.grown(held, ready.kept_bytes)
    is_second = ready.since_ms <= now_ms < ready.until_ms
    if not is_second:
        ready.age(judged, named, held)
        ready.since_ms = now_ms
        # A record from a clock ahead of ours may turn fresh at any moment.
        ready.until_ms = now_ms + 1000 - (now_ms - held.made_ms) % 1000 if now_ms >= held.made_ms else now_ms
    return ready, is_second


def _answer(found: Found, judged: Judged, named: Named, ready: Ready) -> Hit:
    held, query = found.held, named.query
    answer = Hit(
        status=held.status,
        lines=ready.lines,
        body=b"",
        how=How.HIT if judged.verdict is Verdict.FRESH else How.STALE,
        tier=found.tier,
        operation=query.operation,
        model=query.model,
        route=named.route.name,
        origin_ms=held.took_ms,
        is_due=may_revalidate_behind(judged, held.lifetimes),
    )
    if (
        named.if_none_match is not None
        and named.is_safe
        and not held.is_negative
        and etag_matches(named.if_none_match, ready.etag)
    ):
        answer.status, answer.lines = 304, without_content(ready.lines)
    elif ready.has_calls:
        made, ready.next_body = ready.next_body, None
        answer.body = made or projected(held, ready.shape, usage=ready.usage, randomness=secrets.token_bytes(16))
        answer.lines += _length_line(answer.body)
    else:
        answer.body = held.body if ready.body is None else ready.body
    return answer


def lines_of_several(
    judged: Judged, named: Named, *, tag: str, kind: str, others: list[tuple[str, str]], detail: str | None
) -> bytes:
    """The header lines of an answer that is put together of several records, so old and good as `judged` says."""
    status = CacheStatus(hit=True, ttl_s=judged.ttl_s, detail=detail, other_revision=named.is_other_revision)
    return b"".join(
        (
            b"cache-status: %s\r\nage: %d\r\n" % (str(status).encode(), judged.age_s),
            _LINES[named.is_safe] % tag.encode(),
            _kind_line(kind),
            lines_of(raw(others)),
        )
    )


def projected(
    held: Held, shape: str, *, usage: bool, randomness: bytes | None = None, projection: str | None = None
) -> bytes:
    """A record's body in a shape; with randomness, tool calls get fresh ids."""
    if held.is_negative and projection in shapes.RETOLD:
        return shapes.RETOLD[projection].refused(held.status, held.body)
    if held.shape == "vector" and projection in shapes.FORM:
        return shapes.FORM[projection](held.body)
    if held.operation not in shapes.WHOLE_OF or held.is_negative:
        return held.body
    if shape == "whole":
        told = shapes.whole(held.operation, held.body, shape=held.shape, randomness=randomness)
    else:
        told = shapes.events(held.operation, held.body, shape=held.shape, usage=usage, randomness=randomness)
    return shapes.retold(projection, told, shape=shape)


def _length_line(body: bytes) -> bytes:
    return b"content-length: %d\r\n" % len(body)


@lru_cache(maxsize=256)
def _kind_line(kind: str) -> bytes:
    return lines_of(raw([("content-type", kind)]))


def without_content(lines: bytes) -> bytes:
    """What a 304 tells: all but the fields that describe a body (RFC 9110 section 15.4.5)."""
    return b"".join(line for line in lines.splitlines(keepends=True) if not line.startswith(b"content-"))


def shape_for(operation: str, came: str, streamed: bool) -> str:
    """The shape a caller wants of an answer that came in one."""
    if operation not in shapes.WHOLE_OF:
        return came
    return "events" if streamed else "whole"


def content_type(shape: str) -> str:
    return shapes.EVENT_STREAM if shape == "events" else shapes.JSON
