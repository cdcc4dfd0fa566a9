"""How the tables are written: a vector, its bytes, and a request for `same_key`."""

from __future__ import annotations

import json
from typing import Any

Vector = dict[str, Any]


def gives(name: str, rule: str, op: str, given: dict[str, Any], out: Any) -> Vector:
    """A vector whose outcome is a value."""
    return {"name": name, "rule": rule, "op": op, "in": given, "out": out}


def fails(name: str, rule: str, op: str, given: dict[str, Any], error: str) -> Vector:
    """A vector whose outcome is an error's code or the reason why there is no key."""
    return {"name": name, "rule": rule, "op": op, "in": given, "error": error}


def utf8(text: str) -> dict[str, str]:
    return {"utf8": text}


def hexed(content: bytes) -> dict[str, str]:
    return {"hex": content.hex()}


def repeated(*runs: tuple[str, int]) -> dict[str, Any]:
    """Bytes too many to write out: each text so many times."""
    return {"repeated": [list(run) for run in runs]}


def json_text(value: Any) -> dict[str, str]:
    """A JSON body with its members in the order given."""
    return utf8(json.dumps(value, ensure_ascii=False))


def asks(operation: str, body: Any, **rest: Any) -> dict[str, Any]:
    """A request as `same_key` takes it; a body given as text stands as it is."""
    return {"operation": operation, "body": utf8(body) if isinstance(body, str) else json_text(body), **rest}


def one_key(name: str, rule: str, a: dict[str, Any], b: dict[str, Any]) -> Vector:
    return gives(name, rule, "same_key", {"a": a, "b": b}, True)


def two_keys(name: str, rule: str, a: dict[str, Any], b: dict[str, Any]) -> Vector:
    return gives(name, rule, "same_key", {"a": a, "b": b}, False)
