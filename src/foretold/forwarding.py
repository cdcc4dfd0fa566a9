"""What goes to an origin beside the question: only what is keyed or known to change nothing (rules K3 and P4)."""

from __future__ import annotations

import msgspec
import orjson
from msgspec.structs import replace

from foretold.contract.query import INERT_HEADERS, KEYED_HEADERS
from foretold.memo import Head
from foretold.ports import Asked, Forwarded
from foretold.projections.shapes import WHOLE_OF
from foretold.routes import Route


def forwarded(head: Head, asked: Asked, route: Route) -> Forwarded:
    allowed = KEYED_HEADERS | INERT_HEADERS | route.keyed_headers | route.inert_headers
    if asked.operation.startswith(("json ", "get ")):
        allowed |= {"accept-language"}
    headers = tuple(h for h in head.request.headers if h[0] in allowed)
    credential = None
    if route.passes_credential and head.own_credential is not None:
        credential = next(h for h in head.request.headers if h[0] == head.own_credential)
    return Forwarded(headers, credential, may_use_own=not route.passes_credential)


def asking_for_usage(asked: Asked, route: Route) -> tuple[Asked, bool]:
    """The question as it goes out, and whether its answer will tell usage.

    A streamed one is asked with `include_usage`, the one thing we change in a body; all its other bytes stay.
    """
    if asked.usage or asked.operation not in WHOLE_OF:
        return asked, True
    if not route.asks_usage:
        return asked, False
    members = raw_members(asked.body)
    options = orjson.loads(members.get("stream_options", b"null"))
    if options is not None and not isinstance(options, dict):
        return asked, False
    members["stream_options"] = orjson.dumps({**(options or {}), "include_usage": True})
    return replace(asked, body=from_raw_members(members)), True


def raw_members(body: bytes) -> dict[str, bytes]:
    """The members of a JSON object, each value in its own bytes."""
    decoded = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    return {name: bytes(raw) for name, raw in decoded.items()}


def from_raw_members(members: dict[str, bytes]) -> bytes:
    return b"{" + b",".join(orjson.dumps(name) + b":" + raw for name, raw in members.items()) + b"}"
