"""From an answer that has ended to a record, or the reason why there is none (rules P1, F1, F2, R2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson
from msgspec.structs import replace

from foretold.contract import storable
from foretold.contract.canonical import check_limits
from foretold.contract.events import ends_cleanly, split
from foretold.contract.freshness import Lifetimes, made_ms, upstream_lifetimes
from foretold.contract.query import KEYED_HEADERS
from foretold.contract.record import Record, kept_headers
from foretold.errors import Malformed
from foretold.fields import by_name
from foretold.memo import Named
from foretold.ports import Asked, Incoming
from foretold.projections import glance, shapes
from foretold.projections.fold import NotAnAnswer

_UNREADABLE = (Malformed, UnicodeDecodeError, orjson.JSONDecodeError)


@dataclass(frozen=True, slots=True)
class Departure:
    """What was known when a flight began: the tags' generations are those of that moment (rule G1).

    `is_first_sight`: the route keeps only what was asked for before, and this was not.
    """

    asked: Asked
    named: Named
    lifetimes: Lifetimes
    tags: dict[str, str]
    asked_ms: int
    asked_for_usage: bool
    is_first_sight: bool = False


def record_of(departure: Departure, incoming: Incoming, body: bytes, *, now_ms: int) -> Record | str:
    """The record of a cleanly ended answer, or one word that says why it isn't kept."""
    asked, route = departure.asked, departure.named.route
    if incoming.is_fallback:
        return "fallback"
    if incoming.why_not is not None:
        return incoming.why_not
    if not incoming.is_proven:
        return "end-unproven"
    headers = by_name(incoming.headers)
    is_stream = is_events(headers.get("content-type", ""))
    shape = "events" if is_stream else shapes.SHAPE_OF.get(asked.operation, "whole")
    value, why = _judged(asked, incoming.status, headers.get("content-type", ""), body, shape)
    if why is None:
        limited = asked.limited or route.origin.limits_answers
        why = storable.why_not(asked.operation, incoming.status, value, limited=limited)
    if why is not None:
        return why
    lifetimes = _lifetimes_of(departure, headers, now_ms=now_ms)
    if lifetimes is None:
        return "upstream-forbids"
    usage = value.get("usage") if isinstance(value, dict) else None
    usage = usage if isinstance(usage, dict) else None
    made = _record(departure, incoming, body, lifetimes=lifetimes, now_ms=now_ms)
    has = ("usage",) if usage is not None or departure.asked_for_usage else ()
    return replace(made, shape=shape, has=has, usage=usage)


def negative_of(departure: Departure, incoming: Incoming, body: bytes, *, now_ms: int) -> Record | None:
    """The short-lived record of an error that the same query would get again (rule P2), if it is one.

    It answers whatever is wanted, usage too: there is no more to be had.
    """
    headers = by_name(incoming.headers)
    if (
        incoming.status not in storable.NEGATIVE_STATUSES
        or incoming.is_fallback
        or not incoming.is_proven
        or incoming.why_not is not None
        or not is_json(headers.get("content-type", ""))
        or not storable.is_negative(incoming.status, _read(body))
    ):
        return None
    lifetimes = _lifetimes_of(departure, headers, now_ms=now_ms)
    if lifetimes is None:
        return None
    brief = Lifetimes(min(storable.NEGATIVE_S, lifetimes.fresh_s), 0, 0)
    made = _record(departure, incoming, body, lifetimes=brief, now_ms=now_ms)
    return replace(made, kind="negative", has=("usage",))


def _record(departure: Departure, incoming: Incoming, body: bytes, *, lifetimes: Lifetimes, now_ms: int) -> Record:
    """A whole answer with all that is known of its flight."""
    named, headers = departure.named, by_name(incoming.headers)
    return Record(
        key=named.key,
        namespace=named.query.namespace,
        operation=departure.asked.operation,
        model=named.query.model,
        revision=named.query.revision,
        engine=named.route.engine,
        kind="answer",
        made_ms=made_ms(now_ms, headers.get("age")),
        asked_ms=departure.asked_ms,
        fresh_s=lifetimes.fresh_s,
        stale_while_revalidate_s=lifetimes.stale_while_revalidate_s,
        stale_if_error_s=lifetimes.stale_if_error_s,
        status=incoming.status,
        content_type=headers.get("content-type", "application/octet-stream"),
        headers=kept_headers(list(incoming.headers)),
        shape="whole",
        has=(),
        took_ms=now_ms - departure.asked_ms,
        tags=departure.tags,
        body=body,
        usage=None,
    )


def admits(departure: Departure, incoming: Incoming, *, now_ms: int) -> bool:
    """Whether an answer may be kept if it ends cleanly, as far as its head tells."""
    headers = by_name(incoming.headers)
    kind = headers.get("content-type", "")
    operation = departure.asked.operation
    if incoming.status != 200 or incoming.is_fallback or departure.is_first_sight:
        return False
    if is_events(kind):
        if operation not in shapes.WHOLE_OF:
            return False
    elif not is_json(kind) and not operation.startswith("get "):
        return False
    return _lifetimes_of(departure, headers, now_ms=now_ms) is not None


def is_events(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == "text/event-stream"


def is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def _lifetimes_of(departure: Departure, headers: dict[str, str], *, now_ms: int) -> Lifetimes | None:
    """What the route, the caller and, where the route says so, the upstream leave; None: it may not be kept."""
    route = departure.named.route
    if not route.respects_upstream:
        return departure.lifetimes
    keyed = KEYED_HEADERS | route.keyed_headers | {"accept-language"}
    return upstream_lifetimes(headers, departure.lifetimes, shared_scope=route.shared, keyed=keyed, now_ms=now_ms)


def _judged(asked: Asked, status: int, content_type: str, body: bytes, shape: str) -> tuple[Any, str | None]:
    """The JSON value of an answer, folded if it is a transcript; or why it can't be one."""
    if status != 200:
        return None, "status"
    if not body:
        return None, "empty"
    try:
        if shape == "events":
            if asked.operation not in shapes.WHOLE_OF:
                return None, "events"
            glanced = glance.OF[asked.operation](body)
            if glanced is not None:
                return glanced, None
            events, rest = split(body)
            if not ends_cleanly(events, rest):
                return None, "no-clean-end"
            return shapes.WHOLE_OF[asked.operation](events), None
        if is_json(content_type):
            check_limits(body)
            return orjson.loads(body), None
    except (NotAnAnswer, *_UNREADABLE):
        return None, "unreadable"
    return (None, None) if asked.operation.startswith("get ") else (None, "not-json")


def _read(body: bytes) -> Any:
    """The JSON value of a body; None if it can't be read."""
    try:
        check_limits(body)
        return orjson.loads(body)
    except _UNREADABLE:
        return None
