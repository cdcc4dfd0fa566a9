"""The answer of a record, made ready once and given again and again (rules P3, S1, S2).

A hot record is asked for many times a second, and all that changes from one second to the next is its age.  So body and
header lines are kept beside the record as they go out, by shape, and only the age is written anew.
"""

from __future__ import annotations

import secrets

from foretold.answer import Hit, lines_of, raw
from foretold.contract.freshness import Judged, Verdict
from foretold.contract.status import CacheStatus, client_cache_control, etag, etag_matches
from foretold.held import Held
from foretold.memo import Named
from foretold.outcome import How, Outcome
from foretold.projections import calls, shapes
from foretold.tiers import Tiers

# Measured by bench/memory.py: a Ready and its lines, beside the body.
LINES_BYTES = 700

_HIT = (b"cf-aig-cache-status", b"HIT")
_CACHE_CONTROL = {
    is_safe: (b"cache-control", client_cache_control("GET" if is_safe else "POST", hit=True).encode())
    for is_safe in (True, False)
}


class Ready:
    """`body` is None where it is the record's own bytes, or must be made for each delivery (`has_calls`).

    `lines` begin with what changes with the age, status and Age; from `fixed_at` on they stay.
    """

    __slots__ = ("age_s", "body", "etag", "fixed_at", "has_calls", "lines", "shape", "usage")

    def __init__(self, held: Held, named: Named):
        self.shape = shape_for(held.operation, held.shape, named.streamed)
        self.usage = named.usage or self.shape == "whole"
        self.etag = etag(held.body_sha256, self.shape)
        self.has_calls = held.operation == "chat" and calls.has_calls(held.body)
        self.body = None if self.has_calls else projected(held, self.shape, usage=self.usage)
        length = () if self.body is None else (_length(self.body),)
        if self.body == held.body:
            self.body = None
        kind = held.content_type if self.shape == held.shape else content_type(self.shape)
        self.age_s = -1
        self.fixed_at = 0
        self.lines = lines_of(
            [
                _HIT,
                (b"etag", self.etag.encode()),
                _CACHE_CONTROL[named.is_safe],
                (b"content-type", kind.encode("latin-1", "replace")),
                *raw(h for h in held.headers if h[0] != "content-type"),
                *length,
            ]
        )

    @property
    def kept_bytes(self) -> int:
        return LINES_BYTES + (0 if self.body is None else len(self.body))

    def aged(self, judged: Judged, named: Named, key: str) -> bytes:
        """The lines with this age; the same object within a second."""
        if judged.age_s != self.age_s:
            shown = None if named.route.shared else key
            status = CacheStatus(hit=True, ttl_s=judged.ttl_s, key=shown, detail=named.detail)
            aging = b"cache-status: %s\r\nage: %d\r\n" % (str(status).encode(), judged.age_s)
            self.lines = aging + self.lines[self.fixed_at :]
            self.fixed_at = len(aging)
            self.age_s = judged.age_s
        return self.lines


def hit(held: Held, judged: Judged, named: Named, outcome: Outcome, tiers: Tiers) -> Hit:
    """The answer of a record: 304 where the caller's copy is the same."""
    outcome.how = How.HIT if judged.verdict is Verdict.FRESH else How.STALE
    outcome.origin_ms = held.took_ms
    place = (named.streamed, named.usage, named.is_safe, named.detail)
    if held.ready is None:
        held.ready = {}
    ready = held.ready.get(place)
    if not isinstance(ready, Ready):
        ready = held.ready[place] = Ready(held, named)
        tiers.grown(held, ready.kept_bytes)
    lines = ready.aged(judged, named, held.key)
    if named.if_none_match is not None and named.is_safe and etag_matches(named.if_none_match, ready.etag):
        return Hit(304, _without_content(lines))
    if ready.has_calls:
        body = projected(held, ready.shape, usage=ready.usage, randomness=secrets.token_bytes(16))
        return Hit(held.status, lines + lines_of([_length(body)]), body)
    return Hit(held.status, lines, held.body if ready.body is None else ready.body)


def projected(held: Held, shape: str, *, usage: bool, randomness: bytes | None = None) -> bytes:
    """A record's body in a shape; with randomness, tool calls get fresh ids."""
    if held.operation not in shapes.WHOLE_OF:
        return held.body
    if shape == "whole":
        return shapes.whole(held.operation, held.body, shape=held.shape, randomness=randomness)
    return shapes.events(held.operation, held.body, shape=held.shape, usage=usage, randomness=randomness)


def _length(body: bytes) -> tuple[bytes, bytes]:
    return b"content-length", b"%d" % len(body)


def _without_content(lines: bytes) -> bytes:
    """What a 304 tells: all but the fields that describe a body (RFC 9110 section 15.4.5)."""
    return b"".join(line for line in lines.splitlines(keepends=True) if not line.startswith(b"content-"))


def shape_for(operation: str, came: str, streamed: bool) -> str:
    """The shape a caller wants of an answer that came in one."""
    if operation not in shapes.WHOLE_OF:
        return came
    return "events" if streamed else "whole"


def content_type(shape: str) -> str:
    return shapes.EVENT_STREAM if shape == "events" else shapes.JSON
