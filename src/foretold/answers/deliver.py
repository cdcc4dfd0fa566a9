"""From flights and passes to answers: shape, headers, and what they say about the cache (rules P3, P4, S1)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable

import orjson
from msgspec.structs import replace

from foretold.answers.answer import Answer, raw
from foretold.answers.code_points import CodePoints, cut_anew, is_utf8
from foretold.answers.ready import shape_for
from foretold.answers.reshaping import Reshaped, Shapes
from foretold.contract.events import Splitter
from foretold.contract.status import CacheStatus, listed
from foretold.errors import OriginError
from foretold.fields import by_name
from foretold.flights.flight import Ride, collected
from foretold.flights.landing import is_events
from foretold.memo import Named
from foretold.outcome import Ended, Outcome
from foretold.ports import Asked, Incoming
from foretold.projections import shapes
from foretold.projections.fold import NotAnAnswer

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


_OF_THE_BYTES = frozenset(["content-type", "content-md5", "digest", "content-digest", "repr-digest", "accept-ranges"])
# What an origin tells the one caller whose query it answered: of that query alone, or of the account it was asked with.
_FOR_ONE_CALLER = re.compile(
    r"cookie|session|request-?id|correlation-?id|trace|^cf-ray$|rate-?limit|quota|credit|budget|spend|billing|balance"
    r"|organi[sz]ation|project|account|tenant|customer|user"
)


async def from_ride(ride: Ride, named: Named, outcome: Outcome, *, status: CacheStatus) -> Answer:
    """The answer of a flight, as soon as its head is here.  Raises what kept it from coming."""
    incoming = await ride.head()
    flight, operation = ride.flight, named.query.operation
    outcome.status = incoming.status
    came = _shape_that_came(incoming)
    wanted = shape_for(operation, came, named.streamed) if incoming.status == 200 else came
    projection = named.projection
    if wanted != came or (projection is not None and _is_told_at_once(incoming, came)):
        body = await ride.whole()
        if projection is None:
            made = await flight.shapes.of(body, operation, wanted=wanted, usage=named.usage)
        else:
            made = await flight.shapes.retold(body, projection, status=incoming.status, came=came, wanted=wanted)
        why_not = flight.why_not_kept
        outcome.stored = why_not is None
        if why_not is not None:
            status = replace(status, detail=status.detail or f"not-kept-{why_not}")
        headers = miss_headers(incoming, status, outcome)
        return _reshaped(made, headers, outcome, close=_leaving(ride, outcome))
    if came == "whole" and flight.landed_whole:
        # All of it is here already, as with most short answers: told in one piece, and what became of it is known.
        outcome.stored = flight.why_not_kept is None
        body = flight.body
        headers = miss_headers(incoming, status, outcome) + [("content-length", str(len(body)))]
        return Answer(incoming.status, raw(headers), outcome, body=body, close=_leaving(ride, outcome))
    outcome.stored = flight.landing.admits(incoming)
    headers = miss_headers(incoming, status, outcome)
    if came == "events" and incoming.status == 200 and operation in shapes.WHOLE_OF:
        # Only what a rider or the node itself asked for is kept from those who didn't; all else is the origin's word.
        withheld = flight.tells_usage and not named.usage and projection is None
        chunks = _events(ride.chunks(), outcome, withhold_usage=withheld, projection=projection)
    else:
        chunks = _as_they_come(ride.chunks(), incoming, outcome)
        headers += _length(incoming)
    return Answer(incoming.status, raw(headers), outcome, chunks=chunks, close=_leaving(ride, outcome))


async def passed(incoming: Incoming, asked: Asked, outcome: Outcome, *, status: CacheStatus) -> Answer:
    """An answer that goes through as it is, but for the shape: an origin that only streams is folded."""
    outcome.status = incoming.status
    headers = miss_headers(incoming, status, outcome)
    headers += [h for h in incoming.headers if h[0] == "set-cookie"]
    came, projection = _shape_that_came(incoming), asked.projection if asked.projection in shapes.RETOLD else None
    is_text = asked.operation in shapes.WHOLE_OF
    is_to_fold = incoming.status == 200 and came == "events" and is_text and not asked.streamed
    if is_to_fold or (projection is not None and _is_told_at_once(incoming, came)):
        try:
            body = await collected(incoming.chunks())
        finally:
            await incoming.close()
        if projection is None:
            made = await Shapes().of(body, asked.operation, wanted="whole", usage=True)
        else:
            wanted = shape_for(asked.operation, came, asked.streamed) if incoming.status == 200 else came
            made = await Shapes().retold(body, projection, status=incoming.status, came=came, wanted=wanted)
        return _reshaped(made, headers, outcome, close=None)
    if came == "events" and is_text:
        chunks = _events(incoming.chunks(), outcome, withhold_usage=False, projection=projection)
    else:
        chunks = _as_they_come(incoming.chunks(), incoming, outcome)
        headers += _length(incoming)
    return Answer(incoming.status, raw(headers), outcome, chunks=chunks, close=incoming.close)


def error_event(error: OriginError, projection: str | None = None) -> bytes:
    """What ends a stream that broke off, so that no client takes it for whole."""
    message = f"The answer broke off, what came is not all of it: {error}"
    if projection is not None:
        return shapes.RETOLD[projection].broken(message)
    told = {"message": message, "type": "upstream_error", "code": error.code}
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


def _reshaped(
    made: Reshaped,
    headers: list[tuple[str, str]],
    outcome: Outcome,
    *,
    close: Callable[[], Awaitable[None]] | None,
) -> Answer:
    """An answer whose shape may not be its origin's."""
    outcome.status = made.status
    if made.kind is not None:
        headers = [*(h for h in headers if h[0] not in _OF_THE_BYTES), ("content-type", made.kind)]
    headers.append(("content-length", str(len(made.body))))
    return Answer(made.status, raw(headers), outcome, body=made.body, close=close)


def _is_told_at_once(incoming: Incoming, came: str) -> bool:
    """Whether an answer in another dialect is made of all of it: only a good stream is retold event by event."""
    return incoming.status != 200 or came != "events"


def _shape_that_came(incoming: Incoming) -> str:
    return "events" if is_events(by_name(incoming.headers).get("content-type", "")) else "whole"


def _length(incoming: Incoming) -> list[tuple[str, str]]:
    return [] if incoming.length is None else [("content-length", str(incoming.length))]


def miss_headers(incoming: Incoming, status: CacheStatus, outcome: Outcome) -> list[tuple[str, str]]:
    """What goes with an answer that came from an origin; those who ride along get all that belongs to it."""
    if incoming.is_fallback:
        status = replace(status, detail="fallback")
    if status.forwarded != "bypass" and not status.collapsed:
        status = replace(status, stored=outcome.stored)
    outcome.detail = status.detail
    theirs = [h for h in incoming.headers if not _is_ours(h[0])]
    if status.collapsed:
        theirs = [h for h in theirs if not _FOR_ONE_CALLER.search(h[0])]
    if status.detail == "backoff":
        theirs = [*(h for h in theirs if h[0] != "retry-after"), ("retry-after", "1")]
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


async def _as_they_come(chunks: AsyncIterator[bytes], incoming: Incoming, outcome: Outcome) -> AsyncIterator[bytes]:
    headers = by_name(incoming.headers)
    if "content-encoding" not in headers and is_utf8(headers.get("content-type", "")):
        chunks = cut_anew(chunks)
    try:
        async for chunk in chunks:
            yield chunk
    except OriginError:
        outcome.ended = Ended.CUT
        raise


async def _events(
    chunks: AsyncIterator[bytes], outcome: Outcome, *, withhold_usage: bool, projection: str | None
) -> AsyncIterator[bytes]:
    """Events as they come, each in its own bytes and never half of one, so that an error can be told after any.

    After an event too long to wait for, nothing can be told: then the connection breaks off with the answer.
    """
    splitter, points = Splitter(), CodePoints()
    retelling = None if projection is None else shapes.RETOLD[projection].begin()
    try:
        async for chunk in chunks:
            whole = splitter.feed(chunk)
            if withhold_usage:
                whole = [event for event in whole if not shapes.tells_only_usage(event)]
            if retelling is not None:
                whole = _retold(whole, retelling, splitter)
            # Events end between code points; what follows one too long to wait for is cut like any text.
            told = points.feed(b"".join(whole)) if splitter.has_given_up else b"".join(whole)
            if told:
                yield told
    except OriginError as error:
        outcome.ended = Ended.CUT
        if splitter.has_given_up:
            raise
        yield error_event(error, projection)
        return
    rest = points.rest() + splitter.rest()
    if rest and retelling is None:
        yield rest


def _retold(events: list[bytes], retelling: shapes.Retelling, splitter: Splitter) -> list[bytes]:
    """Raises OriginError for what is no chat."""
    try:
        if splitter.has_given_up:
            raise NotAnAnswer("an event is too long")
        return [retelling.told(event) for event in events]
    except (NotAnAnswer, UnicodeDecodeError):
        raise OriginError(
            "the origin's answer is not one of its dialect: it can't be given in the shape asked for"
        ) from None
