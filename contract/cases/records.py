"""Records, their seal, and what is no record (rules R1, R2, R4)."""

from typing import Any

import reference
import rfc8785

from cases.writing import Vector, fails, gives, hexed

_KEY, _NAMESPACE = "ab" * 32, "cd" * 32
_BODY = b'{"choices":[{"message":{"content":"Loire"}}]}'
_MEMBERS: dict[str, Any] = {
    "key": _KEY,
    "namespace": _NAMESPACE,
    "operation": "chat",
    "model": "gpt-4o",
    "revision": "openai",
    "kind": "answer",
    "made_ms": 1_700_000_001_000,
    "asked_ms": 1_700_000_000_000,
    "fresh_s": 86_400,
    "stale_while_revalidate_s": 86_400,
    "stale_if_error_s": 604_800,
    "status": 200,
    "content_type": "application/json",
    "headers": [["content-type", "application/json"]],
    "shape": "whole",
    "has": ["usage"],
    "usage": {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6},
    "took_ms": 900,
    "tags": {"*": "0123456789abcdef", "model:gpt-4o": ""},
}
_STREAMED = {
    **{name: value for name, value in _MEMBERS.items() if name != "usage"},
    "shape": "events",
    "content_type": "text/event-stream",
    "has": [],
    "headers": [],
    "engine": "llama.cpp/b1234",
}


def _header(members: dict[str, Any], body: bytes) -> dict[str, Any]:
    return {**members, "body_sha256": reference.sha256(body), "body_bytes": len(body)}


def _blob(members: dict[str, Any], body: bytes = _BODY) -> bytes:
    return reference.record(_header(members, body), body)


def _packs(
    name: str, rule: str, members: dict[str, Any], body: bytes = _BODY, rest: dict[str, Any] | None = None
) -> Vector:
    record = {**members, "body": hexed(body), **({"rest": rest} if rest else {})}
    return gives(name, rule, "pack", {"record": record}, hexed(_blob({**members, **(rest or {})}, body)))


def _unpacks(
    name: str, rule: str, members: dict[str, Any], body: bytes = _BODY, rest: dict[str, Any] | None = None
) -> Vector:
    given = {
        "blob": hexed(_blob({**members, **(rest or {})}, body)),
        "key": members["key"],
        "namespace": members["namespace"],
    }
    return gives(name, rule, "unpack", given, {**members, "body": body.hex(), "rest": rest or {}})


def _corrupt(name: str, rule: str, blob: bytes, *, key: str = _KEY, namespace: str = _NAMESPACE) -> Vector:
    return fails(name, rule, "unpack", {"blob": hexed(blob), "key": key, "namespace": namespace}, "record_corrupt")


def _wrong(name: str, **changed: Any) -> Vector:
    """A record that is sealed well, but whose header says something that no record's may."""
    return _corrupt(name, "R2", reference.record({**_header(_MEMBERS, _BODY), **changed}, _BODY))


def _without(member: str) -> Vector:
    header = {name: value for name, value in _header(_MEMBERS, _BODY).items() if name != member}
    return _corrupt(f"a record without {member} is corrupt", "R2", reference.record(header, _BODY))


_COSTLY = {**_MEMBERS, "usage": {"cost": 1e-7, "tokens": 3, "share": 0.5}}
_PACKED = [
    _packs("a record is magic, length, seal, header and body", "R1", _MEMBERS),
    _packs("a streamed record holds its transcript", "R3", _STREAMED, b"data: {}\n\ndata: [DONE]\n\n"),
    _packs("a record may have an empty body", "R1", _MEMBERS, b""),
    _packs("a body may be any bytes", "R1", _MEMBERS, bytes(range(256))),
    _packs("a later writer's members are kept", "R2", _MEMBERS, rest={"colour": "blue", "depth": [1, {"a": None}]}),
    _packs("a header is canonical: fractions in usage are written as RFC 8785 does", "R1", _COSTLY),
    _packs("a header may hold other scripts", "R1", {**_MEMBERS, "model": "модель-🙂"}),
    _packs("a negative record is marked as one", "P2", {**_MEMBERS, "kind": "negative", "status": 404, "fresh_s": 10}),
    _packs("a pointer is marked as one", "R4", {**_MEMBERS, "kind": "pointer"}, b""),
    _packs(
        "a vector is marked as one", "R2", {**_MEMBERS, "operation": "embedding", "shape": "vector"}, b"\x00\x00\x80?"
    ),
    gives(
        "a whole number in usage is written without a fraction",
        "R1",
        "pack",
        {"record": {**_MEMBERS, "usage": {"cost": 2.0}, "body": hexed(_BODY)}},
        hexed(_blob({**_MEMBERS, "usage": {"cost": 2}})),
    ),
    fails(
        "a header over 16 KiB is not packed",
        "R1",
        "pack",
        {"record": {**_MEMBERS, "model": "m" * 16_384, "body": hexed(_BODY)}},
        "unpackable",
    ),
    fails(
        "a header with a number beyond 2 to the 53 is not packed",
        "R1",
        "pack",
        {"record": {**_MEMBERS, "usage": {"n": 2**53}, "body": hexed(_BODY)}},
        "unpackable",
    ),
]

_EMPTY_HEADER_BYTES = len(rfc8785.dumps(_header({**_MEMBERS, "model": ""}, _BODY)))
_LARGEST = {**_MEMBERS, "model": "m" * (16 * 1024 - _EMPTY_HEADER_BYTES)}
_PACKED += [_packs("a header of 16 KiB is packed", "R1", _LARGEST)]
_UNPACKED = [
    _unpacks("a record comes back as it was packed", "R1", _MEMBERS),
    _unpacks("a streamed record comes back", "R3", _STREAMED, b"data: {}\n\ndata: [DONE]\n\n"),
    _unpacks("a record with an empty body comes back", "R1", _MEMBERS, b""),
    _unpacks("a later writer's members come back", "R2", _MEMBERS, rest={"colour": "blue", "depth": [1, {"a": None}]}),
    _unpacks(
        "a later writer's members of our own words come back", "R2", _MEMBERS, rest={"body": "x", "rest": {"a": 1}}
    ),
    _unpacks("a negative record comes back", "P2", {**_MEMBERS, "kind": "negative", "status": 404}),
    _unpacks("a pointer comes back", "R4", {**_MEMBERS, "kind": "pointer"}, b""),
    _unpacks("a vector comes back", "R2", {**_MEMBERS, "shape": "vector"}, b"\x00\x00\x80?"),
    _unpacks("fractions in usage come back", "R2", _COSTLY),
    _unpacks("a header of 16 KiB comes back", "R1", _LARGEST),
    _corrupt(
        "a header of a byte more than 16 KiB is corrupt", "R1", _blob({**_LARGEST, "model": _LARGEST["model"] + "m"})
    ),
    _corrupt("no bytes are no record", "R1", b""),
    _corrupt("magic alone is no record", "R1", b"FTD\x01"),
    _corrupt("another version's magic is no record", "R1", b"FTD\x02" + _blob(_MEMBERS)[4:]),
    _corrupt("text is no record", "R1", b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{}"),
    _corrupt("a record after a byte is no record", "R1", b"\0" + _blob(_MEMBERS)),
    _corrupt("a byte after a record makes it corrupt", "R1", _blob(_MEMBERS) + b"\0"),
    _corrupt("another secret's seal is broken", "R1", _blob(_MEMBERS)[:8] + b"\x5a" * 32 + _blob(_MEMBERS)[40:]),
    _corrupt("another body under the same header is corrupt", "R1", _blob(_MEMBERS)[: -len(_BODY)] + _BODY[::-1]),
    _corrupt("a record of another key is corrupt", "R4", _blob(_MEMBERS), key="ee" * 32),
    _corrupt("a record of another namespace is corrupt", "R4", _blob(_MEMBERS), namespace="ee" * 32),
    _corrupt("a sealed header that is no JSON is corrupt", "R1", reference.record(b"{", b"")),
    _corrupt("a sealed header that is a list is corrupt", "R1", reference.record(b"[]", b"")),
    _corrupt("an empty sealed header is corrupt", "R1", reference.record(b"", b"")),
    _corrupt("a sealed header that is no UTF-8 is corrupt", "R1", reference.record(b'{"key":"\xff"}', b"")),
]

_DAMAGED = [
    gives(
        f"every cut and every changed byte of {what} is seen",
        "R1",
        "every_damage_is_corrupt",
        {"blob": hexed(blob)},
        True,
    )
    for what, blob in [
        ("a whole record", _blob(_MEMBERS)),
        ("a streamed record", _blob(_STREAMED, b"data: {}\n\ndata: [DONE]\n\n")),
        ("a record without a body", _blob(_MEMBERS, b"")),
        ("a record of a later writer", _blob({**_MEMBERS, "colour": "blue"})),
        ("a negative record", _blob({**_MEMBERS, "kind": "negative", "status": 400}, b'{"error":{"message":"no"}}')),
    ]
]

_OTHER_TEXTS = ("namespace", "operation", "model", "revision", "kind", "content_type", "shape")
_WRONG_MEMBERS = [
    *(_without(member) for member in sorted(set(_header(_MEMBERS, _BODY)) - {"usage"})),
    _wrong("a key that is no text is corrupt", key=1),
    *(_wrong(f"a record whose {name} is a number is corrupt", **{name: 5}) for name in _OTHER_TEXTS),
    _wrong("a status that is a text is corrupt", status="200"),
    _wrong("a status that is true is corrupt", status=True),
    _wrong("a time with a fraction is corrupt", made_ms=1.5),
    _wrong("a time that is null is corrupt", asked_ms=None),
    _wrong("a kind nobody knows is corrupt", kind="rumour"),
    _wrong("a shape nobody knows is corrupt", shape="cube"),
    _wrong("headers that are an object are corrupt", headers={"a": "b"}),
    _wrong("a header of three parts is corrupt", headers=[["a", "b", "c"]]),
    _wrong("a header that is a text of two letters is corrupt", headers=["ab"]),
    _wrong("a header whose value is a number is corrupt", headers=[["age", 1]]),
    _wrong("a has that is a text is corrupt", has="usage"),
    _wrong("a has of numbers is corrupt", has=[1]),
    _wrong("tags that are a list are corrupt", tags=[["*", "a"]]),
    _wrong("a tag's generation that is a number is corrupt", tags={"*": 1}),
    _wrong("an engine that is no text is corrupt", engine=1),
    _wrong("usage that is no object is corrupt", usage=[1]),
    _wrong("a length that is not the body's is corrupt", body_bytes=len(_BODY) + 1),
    _wrong("a digest that is not the body's is corrupt", body_sha256="00" * 32),
    _wrong("a digest in capitals is corrupt", body_sha256=reference.sha256(_BODY).upper()),
]


def _kept(name: str, headers: list[list[str]], out: list[list[str]]) -> Vector:
    return gives(name, "R2", "kept_headers", {"headers": headers}, out)


_KEPT = [
    _kept(
        "a record keeps six headers, sorted",
        [
            ["OpenAI-Version", "1"],
            ["Openai-Model", "2"],
            ["Content-Type", "3"],
            ["content-language", "4"],
            ["Content-Disposition", "5"],
            ["Foretold-Usage", "6"],
        ],
        [
            ["content-disposition", "5"],
            ["content-language", "4"],
            ["content-type", "3"],
            ["foretold-usage", "6"],
            ["openai-model", "2"],
            ["openai-version", "1"],
        ],
    ),
    _kept("a record keeps no cookie", [["Set-Cookie", "a=b"], ["set-cookie2", "c"]], []),
    _kept(
        "a record keeps no header that is not known", [["x-ratelimit-remaining", "5"], ["date", "x"], ["etag", "y"]], []
    ),
    _kept(
        "of a header given twice the first is kept",
        [["content-type", "a"], ["Content-Type", "b"]],
        [["content-type", "a"]],
    ),
    _kept(
        "2 KiB of headers are kept",
        [["content-language", "x" * (2048 - 16)]],
        [["content-language", "x" * (2048 - 16)]],
    ),
    _kept(
        "bytes of headers are counted as they came, each a code point",
        [["content-language", "\u00e9" * (2048 - 16)]],
        [["content-language", "\u00e9" * (2048 - 16)]],
    ),
    _kept("a header that takes them over 2 KiB is not kept", [["content-language", "x" * (2048 - 15)]], []),
    _kept(
        "a shorter header after one too long is kept",
        [["content-disposition", "x" * 3000], ["content-type", "a/b"]],
        [["content-type", "a/b"]],
    ),
    _kept(
        "the bytes of a value are counted, not its characters",
        [["content-disposition", "é".encode().decode("latin-1") * 1024], ["content-type", "a"]],
        [["content-type", "a"]],
    ),
]

FILES = {
    "records": _PACKED + _UNPACKED + _DAMAGED,
    "record-members": _WRONG_MEMBERS + _KEPT,
}
