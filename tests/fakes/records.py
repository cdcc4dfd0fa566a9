"""Records for tests that need some."""

from __future__ import annotations

from typing import Any

from foretold.contract.record import Record

SECRET = bytes(32)
KEY = "0" * 64
NAMESPACE = "a" * 64


def record(**members: Any) -> Record:
    given: dict[str, Any] = {
        "key": KEY,
        "namespace": NAMESPACE,
        "operation": "chat",
        "model": "m",
        "revision": "r",
        "kind": "answer",
        "made_ms": 0,
        "asked_ms": 0,
        "fresh_s": 3600,
        "stale_while_revalidate_s": 3600,
        "stale_if_error_s": 3600,
        "status": 200,
        "content_type": "application/json",
        "headers": (("content-type", "application/json"),),
        "shape": "whole",
        "has": ("usage",),
        "took_ms": 100,
        "tags": {"*": "x"},
        "body": b'{"choices":[]}',
    }
    return Record(**{**given, **members})
