"""Everything an upstream can do wrong with an answer, as replies of the fake upstream.

Each carries its question's mark wherever it says anything, so that what goes astray shows.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gzip
import json
import zlib
from collections.abc import Callable

from tests.fakes.upstream import Call, Reply, begin_stream, chat, chunks_of, send_chunk, stream, text_for, whole
from tests.faults.marked import reset

JSON = "content-type: application/json\r\n"
FOREIGN = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 24\r\n\r\n{"stolen":"<<another>>"}'


def said(call: Call, serial: int) -> bytes:
    return json.dumps(chat(call.json, text_for(call.json, serial))).encode()


def events(call: Call, serial: int) -> list[bytes]:
    return chunks_of(chat(call.json, text_for(call.json, serial)), usage=True)


def answer_bytes(call: Call, serial: int) -> bytes:
    """A good answer as it goes over the wire, in the shape that is asked for."""
    if call.json.get("stream"):
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in events(call, serial))
        return head + chunks + b"0\r\n\r\n"
    body = said(call, serial)
    return b"HTTP/1.1 200 OK\r\n%bcontent-length: %d\r\n\r\n%b" % (JSON.encode(), len(body), body)


def cut_at(place: int | float, ends: Callable[[asyncio.StreamWriter], None]) -> Reply:
    """A good answer that ends at a byte, or at a share of all; `ends` is how: a FIN or a reset."""

    async def reply(call: Call, writer: asyncio.StreamWriter, serial: int) -> None:
        sent = answer_bytes(call, serial)
        at = place if isinstance(place, int) else int(place * len(sent))
        writer.write(sent[:at])
        await writer.drain()
        ends(writer)

    return reply


def fin(writer: asyncio.StreamWriter) -> None:
    writer.close()


def stops_at(share: float) -> Reply:
    """A good answer that goes on no more, on a connection that stays."""

    async def reply(call: Call, writer: asyncio.StreamWriter, serial: int) -> None:
        sent = answer_bytes(call, serial)
        writer.write(sent[: int(share * len(sent))])
        await call.cut.wait()

    return reply


def wire(*parts: str | bytes, stays: bool = False) -> Reply:
    """These very bytes, "BODY" standing for a good body and "LENGTH" for its length; then the connection closes."""

    async def reply(call: Call, writer: asyncio.StreamWriter, serial: int) -> None:
        body = said(call, serial)
        for part in parts:
            raw = part.encode("latin-1") if isinstance(part, str) else part
            writer.write(raw.replace(b"LENGTH", b"%d" % len(body)).replace(b"BODY", body))
            await writer.drain()
        if stays:
            await call.cut.wait()
        writer.close()

    return reply


def told(status: int, more: str = "") -> Reply:
    """An error of the upstream in its own words."""

    async def reply(call: Call, writer: asyncio.StreamWriter, serial: int) -> None:
        error = {"error": {"message": f"no: {call.json['messages'][-1]['content']}", "type": "busy"}}
        await whole(writer, json.dumps(error).encode(), status=status, more=more)

    return reply


def coded(pack: Callable[[bytes], bytes], coding: str = "gzip") -> Reply:
    async def reply(call: Call, writer: asyncio.StreamWriter, serial: int) -> None:
        await whole(writer, pack(said(call, serial)), more=f"content-encoding: {coding}\r\n")

    return reply


def bomb(_: bytes) -> bytes:
    return _bomb()


@functools.cache
def _bomb() -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join(packer.compress(bytes(2**20)) for _ in range(200)) + packer.flush()


def changed(change: Callable[[list[bytes], bytes], list[bytes]]) -> Reply:
    """A stream, whoever asks, of other events than it should have; `change` gets the mark, too."""

    async def reply(call: Call, writer: asyncio.StreamWriter, serial: int) -> None:
        asked = call.json["messages"][-1]["content"].encode()
        await stream(writer, change(events(call, serial), asked))

    return reply


async def slow_drip(call: Call, writer: asyncio.StreamWriter, serial: int) -> None:
    """Byte by byte, each in a write of its own, head and all."""
    for byte in answer_bytes(call, serial):
        writer.write(bytes([byte]))
        await asyncio.sleep(0)


async def drip_without_end(call: Call, writer: asyncio.StreamWriter, serial: int) -> None:
    """A byte now and then, too slowly ever to end."""
    for byte in answer_bytes(call, serial):
        writer.write(bytes([byte]))
        await _pause(call, 0.05)
        if call.cut.is_set():
            return


async def refuses_by_closing(call: Call, writer: asyncio.StreamWriter, serial: int) -> None:
    reset(writer)


async def silent(call: Call, writer: asyncio.StreamWriter, serial: int) -> None:
    await call.cut.wait()


def endless(piece: bytes, *, head: bytes) -> Reply:
    async def reply(call: Call, writer: asyncio.StreamWriter, serial: int) -> None:
        writer.write(head)
        while not call.cut.is_set():
            writer.write(piece)
            await writer.drain()
            await _pause(call)

    return reply


async def _pause(call: Call, s: float = 0.001) -> None:
    """So that what has no end leaves the one event loop to others."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(call.cut.wait(), s)


async def error_in_mid_stream(call: Call, writer: asyncio.StreamWriter, serial: int) -> None:
    await begin_stream(writer)
    for event in events(call, serial)[:3]:
        await send_chunk(writer, event)
    asked = call.json["messages"][-1]["content"]
    await send_chunk(writer, b'data: {"error": {"message": "lost: %b"}}\n\n' % asked.encode())
    await send_chunk(writer, b"data: [DONE]\n\n")
    writer.write(b"0\r\n\r\n")
    await writer.drain()


GOOD_HEAD = f"HTTP/1.1 200 OK\r\n{JSON}content-length: LENGTH\r\n"
CHUNKED = f"HTTP/1.1 200 OK\r\n{JSON}transfer-encoding: chunked\r\n\r\n"
STREAMED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
SLICE = b'data: {"id":"x","choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n' % (b"." * 4000)

BREAKING: dict[str, Reply] = {
    "resets at once": refuses_by_closing,
    "closes at once": cut_at(0, fin),
    "closes in the head": cut_at(25, fin),
    "resets in the head": cut_at(25, reset),
    "closes after the head": wire(GOOD_HEAD, "\r\n"),
    "closes in the body": cut_at(0.6, fin),
    "resets in the body": cut_at(0.6, reset),
    "hangs before the head": silent,
    "hangs in the head": stops_at(0.05),
    "hangs in the body": stops_at(0.6),
    "drips without an end": drip_without_end,
    "never ends its head": endless(b"x: y\r\n", head=b"HTTP/1.1 200 OK\r\n"),
    "never ends a line of its head": endless(b"x" * 1000, head=b"HTTP/1.1 200 OK\r\nx: "),
    "never ends its whole answer": endless(b"10000\r\n" + b" " * 65536 + b"\r\n", head=CHUNKED.encode()),
    "never ends its stream": endless(b"%x\r\n%b\r\n" % (len(SLICE), SLICE), head=STREAMED),
    "never ends an event": endless(b"1000\r\n" + b"x" * 4096 + b"\r\n", head=STREAMED + b"6\r\ndata: \r\n"),
    "never stops saying 100": endless(b"HTTP/1.1 100 Continue\r\n\r\n", head=b""),
    "says a longer length and closes": wire(f"HTTP/1.1 200 OK\r\n{JSON}content-length: 99999\r\n\r\nBODY"),
    "says a longer length and stays": wire(f"HTTP/1.1 200 OK\r\n{JSON}content-length: 99999\r\n\r\nBODY", stays=True),
    "says a shorter length": wire(f"HTTP/1.1 200 OK\r\n{JSON}content-length: 40\r\n\r\nBODY", stays=True),
    "says two lengths": wire(GOOD_HEAD, "content-length: 5\r\n\r\nBODY"),
    "says a length below nothing": wire(f"HTTP/1.1 200 OK\r\n{JSON}content-length: -1\r\n\r\nBODY"),
    "says no number as length": wire(f"HTTP/1.1 200 OK\r\n{JSON}content-length: many\r\n\r\nBODY"),
    "says a length and chunks": wire(GOOD_HEAD, "transfer-encoding: chunked\r\n\r\n5\r\nBODY"),
    "sends a chunk without a size": wire(CHUNKED, "zz\r\nBODY\r\n0\r\n\r\n"),
    "sends a chunk of 2**70 bytes": wire(CHUNKED, "400000000000000000\r\nBODY"),
    "sends a chunk below nothing": wire(CHUNKED, "-5\r\nBODY\r\n0\r\n\r\n"),
    "sends a chunk longer than its size": wire(CHUNKED, "5\r\nBODY\r\n0\r\n\r\n"),
    "forgets the last chunk": wire(CHUNKED, "5\r\n12345\r\n"),
    "sends a gzip bomb": coded(bomb),
    "cuts its gzip": coded(lambda body: gzip.compress(body)[:-9]),
    "sends no gzip": coded(lambda body: body),
    "sends HTML": wire("<html><<another>></html>"),
    "speaks HTTP/0.9": wire("BODY"),
    "speaks HTTP/2": wire(b"\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0\x80\0\x04\0\1\0\0\0\5\0\xff\xff\xff"),
    "speaks TLS": wire(b"\x15\x03\x01\0\x02\x02\x46"),
    "speaks noise": wire(bytes(range(256)) * 8),
    "has a status of two digits": wire(f"HTTP/1.1 99 X\r\n{JSON}content-length: LENGTH\r\n\r\nBODY"),
    "has a status of four digits": wire(f"HTTP/1.1 1000 X\r\n{JSON}content-length: LENGTH\r\n\r\nBODY"),
    "changes the protocol": wire("HTTP/1.1 101 X\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n", FOREIGN),
    "has a header without a colon": wire(GOOD_HEAD, "nonsense\r\n\r\nBODY"),
    "has a NUL in a header": wire(GOOD_HEAD, "x: a\0b\r\n\r\nBODY"),
    "has a line of 100 kB": wire(GOOD_HEAD, f"x: {'y' * 100_000}\r\n\r\nBODY"),
}

# What goes through as it came, and must never be a hit.
PASSED_ON: dict[str, Reply] = {
    "an error in a 200": wire(f"HTTP/1.1 200 OK\r\n{JSON}content-length: 26\r\n\r\n", b'{"error":{"message":"x"}} '),
    "an error in mid-stream": error_in_mid_stream,
    "a stream without [DONE]": changed(lambda sent, _: sent[:-1]),
    "a stream that is done twice": changed(lambda sent, _: [*sent, sent[-1]]),
    "an event after [DONE]": changed(lambda sent, _: [*sent, sent[1]]),
    "an empty stream": changed(lambda sent, _: []),
    "only comments": changed(lambda sent, asked: [b": %b\n\n" % asked] * 50),
    "half a character": changed(lambda sent, _: [*sent[:2], b'data: {"x": "\xe2\x82"}\n\n', *sent[2:]]),
    "an end told only by the connection": wire(f"HTTP/1.1 200 OK\r\n{JSON}connection: close\r\n\r\nBODY"),
    "a coding that nobody knows": coded(lambda body: body, "br"),
    "gzip in gzip": coded(lambda body: gzip.compress(gzip.compress(body)), "gzip, gzip"),
    "429": told(429),
    "429 with Retry-After 0": told(429, "retry-after: 0\r\n"),
    "429 with a Retry-After of 16 days": told(429, "retry-after: 1382400\r\n"),
    "429 with a Retry-After below nothing": told(429, "retry-after: -5\r\n"),
    "429 with a date as Retry-After": told(429, "retry-after: Thu, 31 Dec 2037 23:59:59 GMT\r\n"),
    "503": told(503),
    "503 with Retry-After 0": told(503, "retry-after: 0\r\n"),
    "503 with noise as Retry-After": told(503, "retry-after: \xff\xfe soon\r\n"),
    "500": told(500),
    "302 to elsewhere": told(302, "location: http://127.0.0.1:9/\r\n"),
    "204": wire("HTTP/1.1 204 No Content\r\n\r\n"),
}

# Odd, but all of an answer: what comes is right, and may be a hit.
ODD: dict[str, Reply] = {
    "byte by byte": slow_drip,
    "100 before the answer": wire("HTTP/1.1 100 Continue\r\n\r\n", GOOD_HEAD, "\r\nBODY"),
    "102 and 103 before the answer": wire(
        "HTTP/1.1 102 P\r\n\r\nHTTP/1.1 103 E\r\nlink: x\r\n\r\n", GOOD_HEAD, "\r\nBODY"
    ),
    "100 after the answer": wire(GOOD_HEAD, "\r\nBODY", "HTTP/1.1 100 Continue\r\n\r\n", stays=True),
    "an answer to a question nobody asked": wire(GOOD_HEAD, "\r\nBODY", FOREIGN, stays=True),
    "200 fields": wire(GOOD_HEAD, "".join(f"x-{i}: {i}\r\n" for i in range(60)), "\r\nBODY"),
    "a field of 60 kB": wire(GOOD_HEAD, f"x: {'y' * 60_000}\r\n\r\nBODY"),
    "a folded field": wire(GOOD_HEAD, "x: a\r\n b\r\n\r\nBODY"),
    "lines that end in LF": wire(GOOD_HEAD.replace("\r\n", "\n"), "\nBODY"),
    "trailers": wire(CHUNKED, "5\r\n     \r\n0\r\nx-trailer: <<another>>\r\n\r\n"),
}
