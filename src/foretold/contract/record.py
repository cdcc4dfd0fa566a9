"""A prediction as kept: sealed header and body in one run of bytes (rules R1 to R3).

    magic and version 4 · header length 4, big-endian · HMAC-SHA-256(secret, header) 32 · header, RFC 8785 JSON · body

The same bytes lie in every store.  What doesn't unpack is absent, never repaired.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Literal

import msgspec
import orjson

from foretold.contract.canonical import Unkeyable, canonical, settle
from foretold.errors import RecordCorrupt

MAGIC = b"FTD\x01"
MAX_HEADER_BYTES = 16 * 1024
KEPT_HEADERS = frozenset(
    ["content-type", "content-language", "content-disposition", "foretold-usage", "openai-model", "openai-version"]
)
MAX_KEPT_HEADER_BYTES = 2 * 1024

_SEAL_AT, _HEADER_AT = 8, 40


class Record(msgspec.Struct, frozen=True):
    """Rule R2, in its words.  Times are Unix milliseconds, lifetimes whole seconds.

    `has` lists what the answer can serve beyond its text: `usage` if it carries usage or its origin was asked and gave
    none.  `rest` are header members of a later writer, kept as they are.
    """

    key: str
    namespace: str
    operation: str
    model: str
    revision: str
    kind: str
    made_ms: int
    asked_ms: int
    fresh_s: int
    stale_while_revalidate_s: int
    stale_if_error_s: int
    status: int
    content_type: str
    headers: tuple[tuple[str, str], ...]
    shape: str
    has: tuple[str, ...]
    took_ms: int
    tags: dict[str, str]
    body: bytes
    engine: str | None = None
    usage: dict[str, Any] | None = None
    rest: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def body_sha256(self) -> str:
        return hashlib.sha256(self.body).hexdigest()


_KINDS = {"answer", "negative", "pointer"}
_SHAPES = {"whole", "events", "vector"}
_TEXTS = ("key", "namespace", "operation", "model", "revision", "kind", "content_type", "shape")
_NUMBERS = [
    "made_ms",
    "asked_ms",
    "fresh_s",
    "stale_while_revalidate_s",
    "stale_if_error_s",
    "status",
    "took_ms",
    "body_bytes",
]
_OUR_OWN = frozenset([*_TEXTS, *_NUMBERS, "headers", "has", "tags", "engine", "body_sha256"])
_KNOWN = set(Record.__struct_fields__) - {"body", "rest"} | {"body_sha256", "body_bytes"}


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    """A header as this version writes it."""

    key: str
    namespace: str
    operation: str
    model: str
    revision: str
    kind: Literal["answer", "negative", "pointer"]
    made_ms: int
    asked_ms: int
    fresh_s: int
    stale_while_revalidate_s: int
    stale_if_error_s: int
    status: int
    content_type: str
    headers: tuple[tuple[str, str], ...]
    shape: Literal["whole", "events", "vector"]
    has: tuple[str, ...]
    took_ms: int
    tags: dict[str, str]
    body_bytes: int
    body_sha256: str
    engine: str | msgspec.UnsetType = msgspec.UNSET
    usage: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


_decode_header = msgspec.json.Decoder(_Header).decode


def pack(record: Record, secret: bytes, *, body_sha256: str | None = None) -> bytes:
    """The bytes of a record; its body's digest is made anew where it isn't known already.

    Raises ValueError if its header is longer than 16 KiB or holds a number that has no canonical form.
    """
    members: dict[str, Any] = {
        **record.rest,
        "key": record.key,
        "namespace": record.namespace,
        "operation": record.operation,
        "model": record.model,
        "revision": record.revision,
        "kind": record.kind,
        "made_ms": record.made_ms,
        "asked_ms": record.asked_ms,
        "fresh_s": record.fresh_s,
        "stale_while_revalidate_s": record.stale_while_revalidate_s,
        "stale_if_error_s": record.stale_if_error_s,
        "status": record.status,
        "content_type": record.content_type,
        "headers": record.headers,
        "shape": record.shape,
        "has": record.has,
        "took_ms": record.took_ms,
        "tags": record.tags,
        "body_sha256": body_sha256 or record.body_sha256,
        "body_bytes": len(record.body),
    }
    if record.engine is not None:
        members["engine"] = record.engine
    if record.usage is not None:
        members["usage"] = record.usage
    header = _sealed_text(members)
    if len(header) > MAX_HEADER_BYTES:
        raise ValueError(f"the record's header has {len(header)} bytes; at most {MAX_HEADER_BYTES} are kept")
    seal = _seal(secret, header)
    return b"".join((MAGIC, len(header).to_bytes(4, "big"), seal, header, record.body))


def unpack(blob: bytes, secret: bytes, *, key: str, namespace: str) -> Record:
    """The record in a blob that was kept for this key and namespace.

    Raises RecordCorrupt for a wrong length, seal, key, namespace or body digest, and for header members that are
    missing or of the wrong kind.
    """
    return unpack_with_digest(blob, secret, key=key, namespace=namespace)[0]


def unpack_with_digest(blob: bytes, secret: bytes, *, key: str, namespace: str) -> tuple[Record, str]:
    """The same, and the digest of its body, which had to be made."""
    record, body_sha256 = _opened(blob, secret)
    if record.key != key or record.namespace != namespace:
        raise RecordCorrupt("the record is another query's")
    return record, body_sha256


def open_sealed(blob: bytes, secret: bytes) -> Record:
    """The record in a blob, whosever it is; raises RecordCorrupt."""
    return _opened(blob, secret)[0]


def _opened(blob: bytes, secret: bytes) -> tuple[Record, str]:
    if len(blob) < _HEADER_AT or blob[:4] != MAGIC:
        raise RecordCorrupt("no record of this version")
    length = int.from_bytes(blob[4:8], "big")
    header = blob[_HEADER_AT : _HEADER_AT + length]
    if length > MAX_HEADER_BYTES or len(header) < length:
        raise RecordCorrupt("the header is cut")
    if not hmac.compare_digest(blob[_SEAL_AT:_HEADER_AT], _seal(secret, header)):
        raise RecordCorrupt("the seal is broken")
    body = blob[_HEADER_AT + length :]
    body_sha256 = hashlib.sha256(body).hexdigest()
    try:
        told = _decode_header(header)
    except msgspec.MsgspecError:
        return _from_header(header, body, body_sha256), body_sha256  # of a later writer, or none at all
    if told.body_bytes != len(body) or told.body_sha256 != body_sha256:
        raise RecordCorrupt("the body is not the one recorded")
    record = Record(
        key=told.key,
        namespace=told.namespace,
        operation=told.operation,
        model=told.model,
        revision=told.revision,
        kind=told.kind,
        made_ms=told.made_ms,
        asked_ms=told.asked_ms,
        fresh_s=told.fresh_s,
        stale_while_revalidate_s=told.stale_while_revalidate_s,
        stale_if_error_s=told.stale_if_error_s,
        status=told.status,
        content_type=told.content_type,
        headers=told.headers,
        shape=told.shape,
        has=told.has,
        took_ms=told.took_ms,
        tags=told.tags,
        body=body,
        engine=None if told.engine is msgspec.UNSET else told.engine,
        usage=None if told.usage is msgspec.UNSET else told.usage,
    )
    return record, body_sha256


def _seal(secret: bytes, header: bytes) -> bytes:
    mac = _begun(secret).copy()
    mac.update(header)
    return mac.digest()


@lru_cache(maxsize=8)
def _begun(secret: bytes) -> hmac.HMAC:
    return hmac.new(secret, digestmod="sha256")


def _sealed_text(members: dict[str, Any]) -> bytes:
    """The header's text.  Only what others gave, usage and the members of later writers, can hold odd numbers; they are
    settled as a copy, since they are their owners'."""
    try:
        for name in members.keys() - _OUR_OWN:
            members[name] = settle(orjson.loads(orjson.dumps(members[name])))
    except Unkeyable:
        raise ValueError("the record's header holds a number beyond what JSON readers agree on") from None
    return canonical(members)


def _from_header(header: bytes, body: bytes, body_sha256: str) -> Record:
    try:
        members: dict[str, Any] = orjson.loads(header)
        if not all(isinstance(members[name], str) for name in _TEXTS):
            raise RecordCorrupt("a text is missing from the header")
        if not all(type(members[name]) is int for name in _NUMBERS):
            raise RecordCorrupt("a number is missing from the header")
        if not _are_of_their_kinds(members):
            raise RecordCorrupt("a member of the header is of the wrong kind")
        if members["kind"] not in _KINDS or members["shape"] not in _SHAPES:
            raise RecordCorrupt("an unknown kind or shape")
        if members["body_bytes"] != len(body) or members["body_sha256"] != body_sha256:
            raise RecordCorrupt("the body is not the one recorded")
        known = {name: members[name] for name in members.keys() & _KNOWN - {"body_sha256", "body_bytes"}}
        known["headers"] = tuple((name, value) for name, value in members["headers"])
        known["has"] = tuple(members["has"])
        known["tags"] = dict(members["tags"])
        rest = {name: members[name] for name in members.keys() - _KNOWN}
        return Record(**known, body=body, rest=rest)
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as e:
        raise RecordCorrupt(f"the header is not a record's: {type(e).__name__}") from None


def _are_of_their_kinds(members: dict[str, Any]) -> bool:
    headers, has, tags = members["headers"], members["has"], members["tags"]
    return (
        isinstance(headers, list)
        and all(isinstance(pair, list) and len(pair) == 2 and _are_texts(pair) for pair in headers)
        and isinstance(has, list)
        and _are_texts(has)
        and isinstance(tags, dict)
        and _are_texts(tags.values())
        and isinstance(members.get("engine", ""), str)
        and isinstance(members.get("usage", {}), dict)
    )


def _are_texts(values: Iterable[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def kept_headers(headers: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The headers of an answer that its record keeps: the known few, each once, together at most 2 KiB.

    One code point of a value is one byte (rule R2).
    """
    kept: dict[str, str] = {}
    room = MAX_KEPT_HEADER_BYTES
    for name, value in headers:
        name = name.lower()
        cost = len(name) + len(value)
        if name in KEPT_HEADERS and name not in kept and cost <= room:
            kept[name] = value
            room -= cost
    return tuple(sorted(kept.items()))
