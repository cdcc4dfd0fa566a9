"""Forms of requests that servers in a row may read differently, and the one reading each gets here."""

from __future__ import annotations

import json
from dataclasses import dataclass

from tests.asking import chat_body


def asking(text: str) -> bytes:
    return json.dumps(chat_body(text)).encode()


BODY = asking("the form")
LENGTH = b"content-length: %d\r\n" % len(BODY)
CHUNKED = b"transfer-encoding: chunked\r\n"
CHUNKS = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
OPEN, CLOSED = True, False


@dataclass(frozen=True)
class Form:
    """What is sent, the statuses it gets, and whether the connection can be used after it."""

    sent: bytes
    answers: tuple[int, ...]
    stays_open: bool


def post(
    lines: bytes = LENGTH,
    body: bytes = BODY,
    *,
    target: bytes = b"/v1/chat/completions",
    version: bytes = b"HTTP/1.1",
    host: bytes = b"host: localhost\r\n",
) -> bytes:
    return b"POST " + target + b" " + version + b"\r\n" + host + lines + b"\r\n" + body


def refused(sent: bytes, status: int = 400) -> Form:
    return Form(sent, (status,), CLOSED)


def served(sent: bytes) -> Form:
    return Form(sent, (200,), OPEN)


LENGTHS = {
    "the plain form": served(post()),
    "a length and chunks": refused(post(LENGTH + CHUNKED, CHUNKS)),
    "chunks and a length": refused(post(CHUNKED + LENGTH, CHUNKS)),
    "chunks and a length of nothing": refused(post(b"content-length: 0\r\n" + CHUNKED, CHUNKS)),
    "two equal lengths": refused(post(LENGTH + LENGTH)),
    "two different lengths": refused(post(LENGTH + b"content-length: 3\r\n")),
    "a list of lengths": refused(post(b"content-length: %d, %d\r\n" % (len(BODY), len(BODY)))),
    "a length with a plus": refused(post(b"content-length: +%d\r\n" % len(BODY))),
    "a length with a minus": refused(post(b"content-length: -1\r\n")),
    "a length in hex": refused(post(b"content-length: 0x%x\r\n" % len(BODY))),
    "a length with a space inside": refused(post(b"content-length: 4 2\r\n")),
    "a length over 64 bits": refused(post(b"content-length: 1%b\r\n" % (b"0" * 30))),
    "no digits for a length": refused(post(b"content-length: \r\n")),
    "a length with zeros before it": served(post(b"content-length: 000%d\r\n" % len(BODY))),
    "a body longer than its length": Form(post(body=BODY + b"x=1&y=2\r\n\r\n"), (200, 400), CLOSED),
    "a smuggled request after the body": Form(
        post(body=BODY + b"GPOST /v1/chat/completions HTTP/1.1\r\n\r\n"), (200, 400), CLOSED
    ),
}

CODINGS = {
    "chunks": served(post(CHUNKED, CHUNKS)),
    "chunks in capitals": served(post(b"Transfer-Encoding: CHUNKED\r\n", CHUNKS)),
    "gzip, then chunks": refused(post(b"transfer-encoding: gzip, chunked\r\n", CHUNKS)),
    "chunks, then gzip": refused(post(b"transfer-encoding: chunked, gzip\r\n", CHUNKS)),
    "chunks twice in a line": refused(post(b"transfer-encoding: chunked, chunked\r\n", CHUNKS)),
    "chunks twice in two lines": refused(post(CHUNKED + CHUNKED, CHUNKS)),
    "chunks and identity in two lines": refused(post(CHUNKED + b"transfer-encoding: identity\r\n", CHUNKS)),
    "identity": refused(post(b"transfer-encoding: identity\r\n" + LENGTH)),
    "an unknown coding": refused(post(b"transfer-encoding: xchunked\r\n", CHUNKS)),
    "a quoted coding": refused(post(b'transfer-encoding: "chunked"\r\n', CHUNKS)),
    "an empty coding": refused(post(b"transfer-encoding: \r\n" + LENGTH)),
    "a coding after a vertical tab": refused(post(b"transfer-encoding: \x0bchunked\r\n", CHUNKS)),
    "a coding with a parameter": refused(post(b"transfer-encoding: chunked;q=1\r\n", CHUNKS)),
    "chunks in HTTP/1.0": refused(post(CHUNKED, CHUNKS, version=b"HTTP/1.0")),
    "a coded body": Form(post(b"content-encoding: gzip\r\n" + LENGTH), (415,), OPEN),
}

HEADS = {
    "a space before the colon of a length": refused(post(b"content-length : %d\r\n" % len(BODY))),
    "a space before the colon of a coding": refused(post(b"transfer-encoding : chunked\r\n" + LENGTH)),
    "a tab before a colon": refused(post(b"x\t: 1\r\n" + LENGTH)),
    "a folded line": refused(post(b"x: 1\r\n 2\r\n" + LENGTH)),
    "a folded coding": refused(post(b"transfer-encoding:\r\n chunked\r\n" + LENGTH)),
    "a space before the first field": refused(post(b" x: 1\r\n" + LENGTH, host=b"")),
    "lines that end with LF": refused(post().replace(b"\r\n", b"\n")),
    "one line that ends with LF": refused(post(b"x: 1\n" + LENGTH)),
    "a head that ends with LF": refused(post(LENGTH + b"x: 1\r\n\n", b"")),
    "a bare CR in a value": refused(post(b"x: 1\rcontent-length: 3\r\n" + LENGTH)),
    "a NUL in a value": refused(post(b"x: 1\x002\r\n" + LENGTH)),
    "a NUL in a name": refused(post(b"x\x00: 1\r\n" + LENGTH)),
    "a vertical tab in a name": refused(post(b"x\x0b: 1\r\n" + LENGTH)),
    "a space in a name": refused(post(b"x y: 1\r\n" + LENGTH)),
    "no name": refused(post(b": 1\r\n" + LENGTH)),
    "no colon": refused(post(b"x\r\n" + LENGTH)),
    "empty lines before a request": served(b"\r\n\r\n" + post()),
    "no host": refused(post(host=b"")),
    "an empty host": Form(post(host=b"host: \r\n"), (421,), OPEN),
    "two equal hosts": refused(post(host=b"host: localhost\r\nhost: localhost\r\n")),
    "two different hosts": refused(post(host=b"host: localhost\r\nhost: evil.example\r\n")),
    "a list of hosts": Form(post(host=b"host: localhost, evil.example\r\n"), (421,), OPEN),
    "a field of 70 kB": refused(post(b"x: " + b"a" * 70_000 + b"\r\n" + LENGTH), 431),
    "a field of 200 kB": refused(post(b"x: " + b"a" * 200_000 + b"\r\n" + LENGTH), 431),
    "101 fields": refused(post(b"".join(b"x-%d: 1\r\n" % i for i in range(99)) + LENGTH), 431),
    "5,000 fields": refused(post(b"".join(b"x-%d: 1\r\n" % i for i in range(4998)) + LENGTH), 431),
}


def chunks(body: bytes) -> bytes:
    return post(CHUNKED, body)


SIZE = b"%x" % len(BODY)
WHOLE = b"\r\n" + BODY + b"\r\n"

CHUNK_FORMS = {
    "an extension of a chunk": served(chunks(SIZE + b";a=b" + WHOLE + b"0\r\n\r\n")),
    "a quoted extension of a chunk": served(chunks(SIZE + b';a="b"' + WHOLE + b"0\r\n\r\n")),
    "an extension that ends with LF": refused(chunks(SIZE + b";a=b\n" + BODY + b"\r\n0\r\n\r\n")),
    "an extension with a CR inside": refused(chunks(SIZE + b";a\rb" + WHOLE + b"0\r\n\r\n")),
    "extensions of 300 kB": refused(chunks(SIZE + b";" + b"a" * 300_000 + WHOLE + b"0\r\n\r\n")),
    "a chunk's size that ends with LF": refused(chunks(SIZE + b"\n" + BODY + b"\r\n0\r\n\r\n")),
    "a chunk's data that ends with LF": refused(chunks(SIZE + b"\r\n" + BODY + b"\n0\r\n\r\n")),
    "a chunk's data without its end": refused(chunks(SIZE + b"\r\n" + BODY + b"0\r\n\r\n")),
    "a chunk's size with 0x": refused(chunks(b"0x" + SIZE + WHOLE + b"0\r\n\r\n")),
    "a chunk's size with a plus": refused(chunks(b"+" + SIZE + WHOLE + b"0\r\n\r\n")),
    "a chunk's size with a minus": refused(chunks(b"-" + SIZE + WHOLE + b"0\r\n\r\n")),
    "a chunk's size with a space after it": refused(chunks(SIZE + b" " + WHOLE + b"0\r\n\r\n")),
    "a chunk's size with a space before it": refused(chunks(b" " + SIZE + WHOLE + b"0\r\n\r\n")),
    "a chunk's size over 64 bits": refused(chunks(b"1" + b"0" * 16 + SIZE + WHOLE + b"0\r\n\r\n")),
    "a chunk without a size": refused(chunks(WHOLE + b"0\r\n\r\n")),
    "a chunk's size with zeros before it": served(chunks(b"0000" + SIZE + WHOLE + b"0\r\n\r\n")),
    "a last chunk of many zeros": served(chunks(SIZE + WHOLE + b"000\r\n\r\n")),
    "a trailer": served(chunks(SIZE + WHOLE + b"0\r\nx: 1\r\n\r\n")),
    "a trailer that is a host": served(chunks(SIZE + WHOLE + b"0\r\nhost: evil.example\r\n\r\n")),
    "a trailer that is a control": served(chunks(SIZE + WHOLE + b"0\r\nforetold-nonsense: 1\r\n\r\n")),
    "a trailer that is a length": refused(chunks(SIZE + WHOLE + b"0\r\ncontent-length: 5\r\n\r\n")),
    "a trailer that is a coding": refused(chunks(SIZE + WHOLE + b"0\r\ntransfer-encoding: chunked\r\n\r\n")),
    "trailers of 300 kB": refused(chunks(SIZE + WHOLE + b"0\r\nx: " + b"a" * 300_000 + b"\r\n\r\n")),
    "a trailer that ends with LF": refused(chunks(SIZE + WHOLE + b"0\r\nx: 1\n\r\n")),
}

TARGETS = {
    "a whole URL of our own": served(post(target=b"http://localhost/v1/chat/completions")),
    "a whole URL of another host": refused(post(target=b"http://evil.example/v1/chat/completions")),
    "a whole URL with a name in it": refused(post(target=b"http://a@localhost/v1/chat/completions")),
    "a whole URL of another scheme": refused(post(target=b"https://localhost/v1/chat/completions")),
    "a whole URL without a path": refused(post(target=b"http://localhost")),
    "an authority": refused(post(target=b"localhost:80")),
    "an asterisk": refused(post(target=b"*")),
    "CONNECT": refused(b"CONNECT localhost:80 HTTP/1.1\r\nhost: localhost\r\n\r\n"),
    "CONNECT to a path": refused(b"CONNECT /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n"),
    "a fragment": refused(post(target=b"/v1/chat/completions#a")),
    "no target": refused(post(target=b"")),
    "a space in the target": refused(post(target=b"/v1/chat/completions /x")),
    "a tab in the target": refused(post(target=b"/v1/chat\t/completions")),
    "a byte over 127 in the target": refused(post(target=b"/v1/chat/completions?a=\xe9")),
    "a target of 40 kB": refused(post(target=b"/v1/chat/completions?" + b"a" * 40_000), 414),
    "dot segments": Form(post(target=b"/v1/x/../chat/completions"), (400,), OPEN),
    "encoded dot segments": Form(post(target=b"/v1/x/%2e%2e/chat/completions"), (400,), OPEN),
    "an encoded slash": Form(post(target=b"/v1%2fchat/completions"), (400,), OPEN),
    "a backslash": Form(post(target=b"/v1\\chat/completions"), (400,), OPEN),
    "half an escape": Form(post(target=b"/v1/chat/completions%2"), (400,), OPEN),
    "doubled slashes": served(post(target=b"//v1//chat/completions")),
}

VERSIONS = {
    "HTTP/1.0": Form(post(version=b"HTTP/1.0"), (200,), CLOSED),
    "HTTP/1.0 that would stay": Form(post(b"connection: keep-alive\r\n" + LENGTH, version=b"HTTP/1.0"), (200,), CLOSED),
    "HTTP/1.0 that expects": Form(post(b"expect: 100-continue\r\n" + LENGTH, version=b"HTTP/1.0"), (200,), CLOSED),
    "HTTP/1.2": refused(post(version=b"HTTP/1.2")),
    "HTTP/2.0": refused(post(version=b"HTTP/2.0")),
    "HTTP/0.9 with its name": refused(post(version=b"HTTP/0.9")),
    "HTTP/0.9 without its name": refused(b"GET /v1/models\r\n\r\n"),
    "HTTP/1.10": refused(post(version=b"HTTP/1.10")),
    "a version in small letters": refused(post(version=b"http/1.1")),
    "a space after the version": refused(post(version=b"HTTP/1.1 ")),
    "the beginning of HTTP/2": refused(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "the beginning of TLS": refused(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    "a method in small letters": refused(post().replace(b"POST", b"post", 1)),
    "an unknown method": refused(post().replace(b"POST", b"BREW", 1)),
}

H2C = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n"

WISHES = {
    "an upgrade to h2c with a body": served(post(H2C + LENGTH)),
    "an upgrade to h2c with chunks": served(post(H2C + CHUNKED, CHUNKS)),
    "an upgrade to a websocket": served(post(b"connection: upgrade\r\nupgrade: websocket\r\n" + LENGTH)),
    "an upgrade that is the last": Form(
        post(b"connection: upgrade, close\r\nupgrade: h2c\r\n" + LENGTH), (200,), CLOSED
    ),
    "an upgrade with two framings": refused(post(H2C + LENGTH + CHUNKED, CHUNKS)),
    "an upgrade without its connection": served(post(b"upgrade: h2c\r\n" + LENGTH)),
    "QUERY": served(post().replace(b"POST", b"QUERY", 1)),
    "GET with a body": Form(
        b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\ncontent-length: 40\r\n\r\n"
        b"GET /-/health HTTP/1.1\r\nhost: localhost\r\n",
        (200,),
        OPEN,
    ),
    "it expects to be asked on": Form(post(b"expect: 100-continue\r\n" + LENGTH), (100, 200), OPEN),
    "it expects what is unknown": served(post(b"expect: 200-ok\r\n" + LENGTH)),
    "it says that it is the last": Form(post(b"connection: close\r\n" + LENGTH), (200,), CLOSED),
    "the connection of a proxy": served(post(b"proxy-connection: keep-alive\r\nkeep-alive: 5\r\n" + LENGTH)),
}

FORMS = {**LENGTHS, **CODINGS, **HEADS, **CHUNK_FORMS, **TARGETS, **VERSIONS, **WISHES}
