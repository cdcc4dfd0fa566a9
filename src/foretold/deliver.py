"""From flights and passes to answers: shape, headers, and what they say about the cache (rules P3, P4, S1)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import orjson
from msgspec.structs import replace

from foretold.answer import Answer, raw
from foretold.contract.events import Splitter
from foretold.contract.record import KEPT_HEADERS
from foretold.contract.status import CacheStatus, listed
from foretold.errors import OriginError
from foretold.fields import by_name
from foretold.flight import Ride, collected
from foretold.landing import is_events
from foretold.memo import Named
from foretold.outcome import Ended, Outcome
from foretold.ports import Asked, Incoming
from foretold.projections import shapes
from foretold.ready import content_type, shape_for

_OURS = frozenset(
    [
        "cache-status",
        "cf-aig-cache-status",
        "cache-control",
        "etag",
        "expires",
        "last-modified",
        "pragma",
        "content-length",
        "set-cookie",
        "date",
    ]
)


async def from_ride(ride: Ride, named: Named, outcome: Outcome, *, status: CacheStatus) -> Answer:
    """The answer of a flight, as soon as its head is here.  Raises what kept it from coming."""
    incoming = await ride.head()
    outcome.status = incoming.status
    came = _shape_that_came(incoming)
    wanted = shape_for(named.query.operation, came, named.streamed) if incoming.status == 200 else came
    if wanted != came:
        body = _projected(await ride.whole(), named.query.operation, came, wanted, usage=named.usage)
        why_not = ride.flight.why_not_kept
        outcome.stored = why_not is None
        if why_not is not None:
            status = replace(status, detail=status.detail or f"not-kept-{why_not}")
        headers = _miss_headers(incoming, status, outcome)
        headers = _reshaped(headers, content_type(wanted), body)
        return Answer(incoming.status, raw(headers), outcome, body=body, close=_leaving(ride, outcome))
    if came == "whole" and ride.flight.landed_whole:
        # All of it is here already, as with most short answers: told in one piece, and what became of it is known.
        outcome.stored = ride.flight.why_not_kept is None
        body = ride.flight.body
        headers = _miss_headers(incoming, status, outcome) + [("content-length", str(len(body)))]
        return Answer(incoming.status, raw(headers), outcome, body=body, close=_leaving(ride, outcome))
    outcome.stored = ride.flight.landing.admits(incoming)
    headers = _miss_headers(incoming, status, outcome)
    if came == "events" and incoming.status == 200:
        chunks = _events(ride.chunks(), outcome, withhold_usage=not named.usage)
    else:
        chunks = _as_they_come(ride.chunks(), outcome)
        headers += _length(incoming)
    return Answer(incoming.status, raw(headers), outcome, chunks=chunks, close=_leaving(ride, outcome))


async def passed(incoming: Incoming, asked: Asked, outcome: Outcome, *, status: CacheStatus) -> Answer:
    """An answer that goes through as it is, but for the shape: an origin that only streams is folded."""
    outcome.status = incoming.status
    headers = _miss_headers(incoming, status, outcome)
    headers += [h for h in incoming.headers if h[0] == "set-cookie"]
    came = _shape_that_came(incoming)
    if incoming.status == 200 and came == "events" and asked.operation in shapes.WHOLE_OF and not asked.streamed:
        try:
            transcript = await collected(incoming.chunks())
        finally:
            await incoming.close()
        body = _projected(transcript, asked.operation, came, "whole", usage=True)
        return Answer(200, raw(_reshaped(headers, shapes.JSON, body)), outcome, body=body)
    if came == "events" and asked.operation in shapes.WHOLE_OF:
        chunks = _events(incoming.chunks(), outcome, withhold_usage=not asked.usage)
    else:
        chunks = _as_they_come(incoming.chunks(), outcome)
        headers += _length(incoming)
    return Answer(incoming.status, raw(headers), outcome, chunks=chunks, close=incoming.close)


def error_event(error: OriginError) -> bytes:
    """What ends a stream that broke off, so that no client takes it for whole."""
    told = {
        "message": f"The answer broke off, what came is not all of it: {error}",
        "type": "upstream_error",
        "code": error.code,
    }
    return b"data: " + orjson.dumps({"error": told}) + b"\n\n"


def _leaving(ride: Ride, outcome: Outcome) -> Callable[[], Awaitable[None]]:
    """Leaves the flight; by then it is known whether what was admitted for storing was kept."""

    async def leave() -> None:
        flight = ride.flight
        if outcome.stored and flight.ended and (flight.error is not None or flight.why_not_kept is not None):
            outcome.stored = False
            outcome.detail = outcome.detail or f"not-kept-{flight.why_not_kept or 'cut'}"
        await ride.leave()

    return leave


def _projected(body: bytes, operation: str, came: str, wanted: str, *, usage: bool) -> bytes:
    try:
        if wanted == "whole":
            return shapes.whole(operation, body, shape=came)
        return shapes.events(operation, body, shape=came, usage=usage)
    except (ValueError, KeyError, TypeError):
        raise OriginError(
            "the origin's answer is not one of its dialect: it can't be given in the shape asked for"
        ) from None


def _reshaped(headers: list[tuple[str, str]], kind: str, body: bytes) -> list[tuple[str, str]]:
    """The headers of an answer whose shape is not its origin's."""
    return [*(h for h in headers if h[0] != "content-type"), ("content-type", kind), ("content-length", str(len(body)))]


def _shape_that_came(incoming: Incoming) -> str:
    return "events" if is_events(by_name(incoming.headers).get("content-type", "")) else "whole"


def _length(incoming: Incoming) -> list[tuple[str, str]]:
    return [] if incoming.length is None else [("content-length", str(incoming.length))]


def _miss_headers(incoming: Incoming, status: CacheStatus, outcome: Outcome) -> list[tuple[str, str]]:
    """What goes with an answer that came from an origin; those who ride along get no header meant for the first."""
    if incoming.is_fallback:
        status = replace(status, detail="fallback")
    if status.forwarded != "bypass" and not status.collapsed:
        status = replace(status, stored=outcome.stored)
    outcome.detail = status.detail
    theirs = [h for h in incoming.headers if not _is_ours(h[0]) and (not status.collapsed or h[0] in KEPT_HEADERS)]
    before = by_name(incoming.headers).get("cache-status")
    return [
        ("cache-status", listed(before, status)),
        ("cf-aig-cache-status", "MISS"),
        ("cache-control", "no-store"),
        *theirs,
    ]


def _is_ours(name: str) -> bool:
    """Whether a field is ours to tell: an origin knows nothing of this cache, nor which web pages may read here."""
    return name in _OURS or name.startswith("access-control-")


async def _as_they_come(chunks: AsyncIterator[bytes], outcome: Outcome) -> AsyncIterator[bytes]:
    try:
        async for chunk in chunks:
            yield chunk
    except OriginError:
        outcome.ended = Ended.CUT
        raise


async def _events(chunks: AsyncIterator[bytes], outcome: Outcome, *, withhold_usage: bool) -> AsyncIterator[bytes]:
    """Events as they come, each in its own bytes and never half of one, so that an error can be told after any."""
    splitter = Splitter()
    try:
        async for chunk in chunks:
            whole = splitter.feed(chunk)
            if withhold_usage:
                whole = [event for event in whole if not shapes.tells_only_usage(event)]
            if whole:
                yield b"".join(whole)
    except OriginError as error:
        outcome.ended = Ended.CUT
        yield error_event(error)
        return
    rest = splitter.rest()
    if rest:
        yield rest
