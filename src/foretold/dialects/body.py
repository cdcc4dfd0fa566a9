"""JSON bodies as dialects read them: keyed, or known to pass and why (rule K8)."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import msgspec

from foretold.contract.canonical import Unkeyable, read
from foretold.errors import Malformed


class Body(NamedTuple):
    """A settled value; or, where `unkeyable` says why there is none, the members that say where a query goes and how it
    is answered.
    """

    value: Any
    unkeyable: str | None = None


class _Routing(msgspec.Struct):
    model: Any = None
    stream: Any = None
    stream_options: Any = None
    cache: Any = None


def read_body(body: bytes) -> Body:
    """Raises Malformed for what is not JSON."""
    try:
        return Body(read(body))
    except Unkeyable as e:
        return Body(_routing_members(body), f"unkeyable-{e.why}")


def _routing_members(body: bytes) -> dict[str, Any]:
    """What routes and shapes a body whose whole value has no key, without building the rest of it."""
    try:
        members = msgspec.json.decode(body, type=_Routing)
        return msgspec.structs.asdict(members)
    except msgspec.ValidationError:
        return {}  # JSON, but no object
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise Malformed("the body is not JSON") from None
    return value if isinstance(value, dict) else {}
