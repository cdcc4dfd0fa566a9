"""What goes to an origin beside the question: only what is keyed or known to change nothing (rules K3 and P4)."""

from __future__ import annotations

import json
import re

import msgspec
import orjson
from msgspec.structs import replace

from foretold.contract.query import INERT_HEADERS, KEYED_HEADERS
from foretold.memo import Head
from foretold.ports import Asked, Forwarded
from foretold.projections.shapes import WHOLE_OF
from foretold.routes import Route

_TOLERANT = json.JSONDecoder(parse_int=float)
_SPACES = re.compile(r"[ \t\r\n]*")
_BETWEEN = re.compile(r"[ \t\r\n]*[:,]?[ \t\r\n]*")


def forwarded(head: Head, asked: Asked, route: Route) -> Forwarded:
    allowed = KEYED_HEADERS | INERT_HEADERS | route.keyed_headers | route.inert_headers
    if asked.operation.startswith(("json ", "get ")):
        allowed |= {"accept-language"}
    headers = tuple(h for h in head.request.headers if h[0] in allowed)
    credential = None
    if route.passes_credential and head.own_credential is not None:
        credential = next(h for h in head.request.headers if h[0] == head.own_credential)
    return Forwarded(
        headers,
        credential,
        may_use_own=not route.passes_credential,
        keep_alive_s=head.controls.keep_alive_s,
    )


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
    try:
        decoded = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError:
        return _scanned_members(body.decode())  # a lone surrogate, which a tolerant reader takes
    return {name: bytes(raw) for name, raw in decoded.items()}


def _scanned_members(text: str) -> dict[str, bytes]:
    members: dict[str, bytes] = {}
    at = _SPACES.match(text, text.index("{") + 1).end()  # type: ignore[union-attr]
    while text[at] != "}":
        name, at = _TOLERANT.raw_decode(text, at)
        at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]
        began = at
        _, at = _TOLERANT.raw_decode(text, at)
        members[name] = text[began:at].encode()
        at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]
    return members


def from_raw_members(members: dict[str, bytes]) -> bytes:
    return b"{" + b",".join(_text(name) + b":" + raw for name, raw in members.items()) + b"}"


def _text(name: str) -> bytes:
    try:
        return orjson.dumps(name)
    except TypeError:
        return json.dumps(name).encode()  # a lone surrogate goes out as the escape it came as
