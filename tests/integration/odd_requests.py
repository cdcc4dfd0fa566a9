"""Requests as clients send them, and as none should: whole connections of them, from one seed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass

CHAT = "/v1/chat/completions"
_HOST = "Host: 127.0.0.1:3673"
_JSON = "Content-Type: application/json"


@dataclass(frozen=True)
class Connection:
    """What a client sends, in which pieces, and whether it leaves in the middle of the last request.

    `last` are the pieces of a request that no parser takes, or that ends too soon.  They come when all others were
    answered: what becomes of answers that are not out yet is a matter of chance.
    """

    pieces: tuple[bytes, ...]
    last: tuple[bytes, ...]
    leaves: bool


def connections(seed: int, requests: int) -> Iterator[Connection]:
    """Connections with so many requests together."""
    chance = random.Random(seed)
    sent = 0
    while sent < requests:
        each = [_request(chance) for _ in range(min(chance.choice([1, 1, 2, 3, 6, 12]), requests - sent))]
        sent += len(each)
        leaves = chance.random() < 0.1
        last = [_unparsable(chance)] if chance.random() < 0.1 else []
        if leaves:
            request = _request(chance)
            last = [request[: chance.randrange(1, len(request))]]
        sent += len(last)
        yield Connection(_cut(chance, each), _cut(chance, last), leaves)


def _cut(chance: random.Random, each: list[bytes]) -> tuple[bytes, ...]:
    """One after the other, all at once, head and body apart, at any places, or byte by byte."""
    if not each:
        return ()
    match chance.choice(["each", "each", "at once", "apart", "anywhere", "bytes"]):
        case "each":
            return tuple(each)
        case "at once":
            return (b"".join(each),)
        case "apart":
            pieces: list[bytes] = []
            for request in each:
                head, end, body = request.partition(b"\r\n\r\n")
                pieces += [head + end, *([body] if body else [])]
            return tuple(pieces)
        case "anywhere":
            whole = b"".join(each)
            places = sorted({0, len(whole), *(chance.randrange(len(whole)) for _ in range(2 * len(each)))})
            return tuple(whole[a:b] for a, b in zip(places, places[1:], strict=False))
        case _:
            whole = b"".join(each[:2])
            rest = b"".join(each[2:])
            return (*(whole[i : i + 1] for i in range(len(whole))), *([rest] if rest else []))


def _body(chance: random.Random) -> bytes:
    question = chance.randrange(12)
    members: dict[str, object] = {
        "model": chance.choice(["m", "m", "m", "other", "broken"]),
        "messages": [{"role": "user", "content": f"question {question}"}],
    }
    if chance.random() < 0.3:
        members["stream"] = True
    if chance.random() < 0.15:
        members["stream_options"] = {"include_usage": True}
    if chance.random() < 0.2:
        members["temperature"] = chance.choice([0, 0.5, 1])
    if chance.random() < 0.05:
        members["user"] = f"u{chance.randrange(1000)}"
    if chance.random() < 0.03:
        members["store"] = True
    if chance.random() < 0.03:
        members["cache"] = {"no-cache": True, "odd": 1}
    if chance.random() < 0.02:
        members["seed"] = 2**60
    text = json.dumps(members, indent=chance.choice([None, None, 1])).encode()
    return chance.choice([b"{", b"", b'"m"', text[:-1]]) if chance.random() < 0.03 else text


def _request(chance: random.Random) -> bytes:
    body = _body(chance)
    method, target, version = "POST", CHAT, "HTTP/1.1"
    fields = [_HOST, _JSON]
    odd = chance.random()
    if odd < 0.5:
        return _sent(method, target, version, [*fields, f"Content-Length: {len(body)}"], body)
    length = f"Content-Length: {len(body)}"
    match chance.randrange(27):
        case 0:
            return _sent(method, target, "HTTP/1.0", [*fields, length, "Connection: keep-alive"], body)
        case 1:
            return _sent(method, target, version, [*fields, length, "Connection: close"], body)
        case 2:
            return _sent(method, target, version, [*fields, length, "Connection: Keep-Alive"], body)
        case 3:
            return _sent(method, target, version, [*fields, length, "Expect: 100-continue"], body)
        case 4:
            chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
            return _sent(method, target, version, [*fields, "Transfer-Encoding: chunked"], chunked)
        case 5:
            return _sent(method, target, version, [*fields, length, "X-Empty:", "X-Spaced:  a  b  "], body)
        case 6:
            return _sent(method, target, version, [*fields, _HOST, length], body)
        case 7:
            return _sent(method, target, version, [_JSON, length], body)
        case 8:
            return _sent(method, target, version, ["Host: evil.example", length], body)
        case 9:
            return _sent(method, target, version, [*fields, length, "Origin: https://app.example"], body)
        case 10:
            return _sent(method, target, version, [*fields, length, "Origin: https://evil.example"], body)
        case 11:
            wish = chance.choice(["no-cache", "no-store", "max-age=1", "only-if-cached", "max-stale"])
            return _sent(method, target, version, [*fields, length, f"Cache-Control: {wish}"], body)
        case 12:
            return _sent(
                method, target, version, [*fields, length, f"Foretold-TTL: {chance.choice(['5', 'soon'])}"], body
            )
        case 13:
            return _sent(
                method, target, version, [*fields, length, f"Authorization: Bearer k{chance.randrange(3)}"], body
            )
        case 14:
            return _sent("QUERY", target, version, [*fields, length, "If-None-Match: *"], body)
        case 15:
            return _sent("QUERY", target, version, [*fields, length], body)
        case 16:
            return _sent("GET", "/v1/models", version, [_HOST], b"")
        case 17:
            return _sent("GET", f"/items/{chance.randrange(3)}", version, [_HOST], b"")
        case 18:
            return _sent("HEAD", f"/items/{chance.randrange(3)}", version, [_HOST], b"")
        case 19:
            return _sent("GET", f"/items/{chance.randrange(3)}", version, [_HOST, "If-None-Match: *"], b"")
        case 20:
            return _sent("OPTIONS", target, version, [_HOST, "Access-Control-Request-Method: POST"], b"")
        case 21:
            return _sent(method, target + "?foretold-sample=2&a=%41", version, [*fields, length], body)
        case 22:
            return _sent(method, "/V1//chat/completions", version, [*fields, length], body)
        case 23:
            return _sent(method, "http://127.0.0.1:3673" + target, version, [*fields, length], body)
        case 24:
            traced = f"Traceparent: 00-{chance.randrange(2**64):032x}-01"
            return _sent(method, target, version, [*fields, length, traced], body)
        case 25:
            return _sent(method, target, version, [field.upper() for field in fields] + [length.lower()], body)
        case _:
            return b"\r\n" + _sent(method, target, version, [*fields, length], body)


def _unparsable(chance: random.Random) -> bytes:
    body = _body(chance)
    fields = [_HOST, _JSON, f"Content-Length: {len(body)}"]
    good = _sent("POST", CHAT, "HTTP/1.1", fields, body)
    return chance.choice(
        [
            good.replace(b"\r\n", b"\n", 1),
            _sent("POST", CHAT, "HTTP/1.1", [*fields, fields[-1]], body),
            _sent("POST", CHAT, "HTTP/1.1", [*fields, "X-Folded: a\r\n b"], body),
            _sent("POST", CHAT, "HTTP/1.1", [*fields, "Transfer-Encoding: chunked"], body),
            _sent("POST", CHAT, "HTTP/9.9", fields, body),
            _sent("POST", CHAT, "HTTP/1.1", [*fields, "X-Nul: \0"], body),
            _sent("POST", CHAT, "HTTP/1.1", ["Spaced : a", *fields], body),
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + good,
        ]
    )


def _sent(method: str, target: str, version: str, fields: list[str], body: bytes) -> bytes:
    return "\r\n".join([f"{method} {target} {version}", *fields, "", ""]).encode() + body
