"""Values of the vectors in Python's own, and back."""

from __future__ import annotations

import base64
import math
from typing import Any

SECRET = bytes(32)

STATUSES = {"malformed_body": 400, "bad_control": 400, "two_credentials": 400, "bad_credential": 401}
"""What HTTP callers get for an error's code."""


def bytes_of(told: dict[str, Any]) -> bytes:
    """Bytes told as utf8, base64, hex, or as texts repeated."""
    ((notation, value),) = told.items()
    match notation:
        case "utf8":
            return value.encode()
        case "base64":
            return base64.b64decode(value, validate=True)
        case "hex":
            return bytes.fromhex(value)
        case "repeated":
            return b"".join(text.encode() * times for text, times in value)
    raise ValueError(f"{notation!r} is no notation for bytes")


def pairs_of(told: list[list[str]]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in told]


def seconds_of(told: int | str | None) -> float | None:
    """A number of seconds, of which `any` is infinitely many."""
    return math.inf if told == "any" else told  # type: ignore[return-value]


def is_same(one: Any, other: Any) -> bool:
    """Equality of JSON values: `1 == True` in Python, but not in JSON."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    return bool(one == other)
