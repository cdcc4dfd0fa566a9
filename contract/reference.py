"""Digests, seals and records by the shortest code that the rules allow: what the vectors are computed with.

It shares nothing with the two implementations but the rules: canonical JSON is the rfc8785 package's.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import rfc8785

SECRET = bytes(32)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def json_digest(value: Any) -> str:
    return sha256(rfc8785.dumps(value))


def key(
    namespace: str,
    operation: str,
    model: str,
    revision: str,
    sample: int,
    query: str,
    headers: Any,
    form: str,
    input: str,
) -> str:
    """Rule K1, member by member in its order."""
    return json_digest(["foretold/1", namespace, operation, model, revision, sample, query, headers, form, input])


def tenant_namespace(tenant: str) -> str:
    return _hmac(f"namespace\n{tenant}".encode()).hex()


def child_namespace(parent: str, label: str) -> str:
    return _hmac(f"{parent}\n{label}".encode()).hex()


def record(header: Any, body: bytes) -> bytes:
    """Rule R1.  A header given as bytes is sealed as it is, so that unsound ones can be made too."""
    text = header if isinstance(header, bytes) else rfc8785.dumps(header)
    return b"FTD\x01" + len(text).to_bytes(4, "big") + _hmac(text) + text + body


def fresh_id(recorded: str, randomness: bytes) -> str:
    """Rule P3's algorithm, digit by digit."""
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    prefix = ""
    for at, character in enumerate(recorded):
        if character in "_-":
            prefix = recorded[: at + 1]
    length = len(recorded) - len(prefix)
    length = length if length >= 9 else 24
    fresh, block = prefix, 0
    while len(fresh) < len(prefix) + length:
        run = hashlib.sha256(f"{block}\n".encode() + randomness + b"\n" + recorded.encode()).digest()
        for byte in run:
            if byte < 248 and len(fresh) < len(prefix) + length:
                fresh += digits[byte % 62]
        block += 1
    return fresh


def _hmac(content: bytes) -> bytes:
    return hmac.new(SECRET, content, hashlib.sha256).digest()
