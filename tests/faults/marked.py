"""Questions that carry a mark, and answers read so that a wrong, foreign or half byte shows.

The upstream repeats the mark of each question with the number of the call, so every whole answer can be checked against
nothing but its own question; and no other mark may be in it, whole or half, answer or error.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import struct
from dataclasses import dataclass, field
from typing import Any

from tests.asking import chat_body

# No question waits longer, whatever fails: the longest time-out of the nodes in these tests is far below.
BOUND_S = 30.0
MARK = re.compile(rb"<<[\w-]+>>")


def mark(name: object) -> str:
    return f"<<{re.sub('[^0-9a-z]+', '-', str(name).lower()).strip('-')}>>"


@dataclass(frozen=True)
class Got:
    """What a caller got: `status` is None where not even a head came; `is_whole` says what the framing says."""

    mark: str
    status: int | None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_whole: bool = False

    @property
    def is_hit(self) -> bool:
        return "; hit" in self.headers.get("cache-status", "")

    @property
    def text(self) -> str | None:
        """What the answer says, if it is all of one: framed to its end, read to its finish, and no error in it."""
        if self.status != 200 or not self.is_whole:
            return None
        with contextlib.suppress(ValueError, KeyError, TypeError, IndexError, AttributeError):
            if not self.headers["content-type"].startswith("text/event-stream"):
                text: str = json.loads(self.body)["choices"][0]["message"]["content"]
                return text
            data = [line[6:] for line in self.body.split(b"\n") if line.startswith(b"data: ")]
            if data[-1] == b"[DONE]":
                choices = [choice for chunk in map(json.loads, data[:-1]) for choice in chunk["choices"]]
                return "".join(choice["delta"].get("content") or "" for choice in choices)
        return None

    @property
    def is_answer(self) -> bool:
        """Whether it is what the upstream says to this question, from the first word to the last."""
        return self.text is not None and re.fullmatch(_says(self.mark), self.text) is not None

    @property
    def wrongs(self) -> list[str]:
        """Marks of others; a text that is whole and not the answer; a hit that is none; an error without words."""
        found = [f"{self.mark} got bytes of {other!r}" for other in set(MARK.findall(self.body)) - {self.mark.encode()}]
        if self.text is not None and not self.is_answer:
            found.append(f"{self.mark} got the text {self.text[:100]!r}")
        # An error of the caller's own making is kept for seconds, and says so (rule P2).
        if self.is_hit and not self.is_answer and "detail=negative" not in self.headers["cache-status"]:
            found.append(f"{self.mark} got a hit that is no answer: {self.body[:200]!r}")
        if self.status is not None and self.status >= 400 and self.is_whole and b'"error"' not in self.body:
            found.append(f"{self.mark} got a {self.status} without an error: {self.body[:200]!r}")
        return found


def _says(mark: str) -> str:
    return rf"You said '{mark}'\. This is call \d+\.[ .]*"


def question(mark: str, *, model: str = "m", stream: bool = False, spaces: int = 0) -> bytes:
    """A request as it goes over the wire, on a connection of its own; with spaces it is the same in other bytes."""
    asked = chat_body(mark) | {"model": model} | ({"stream": True} if stream else {})
    body = (json.dumps(asked) + " " * spaces).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def connect(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]), limit=2**16)


async def ask(url: str, mark: str, **asked: Any) -> Got:
    """Asks and reads to the end.  Raises TimeoutError where that takes longer than anything may."""
    async with asyncio.timeout(BOUND_S):
        reader, writer = await connect(url)
        try:
            writer.write(question(mark, **asked))
            return read(mark, await read_to_end(reader))
        finally:
            writer.transport.abort()


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    """All that comes, also if a reset ends it."""
    came = []
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(2**16):
            came.append(piece)
    return b"".join(came)


def read(mark: str, came: bytes) -> Got:
    """Bytes of a connection, as an answer."""
    head, ends, rest = came.partition(b"\r\n\r\n")
    if not ends:
        return Got(mark, None)
    lines = head.decode("latin-1").split("\r\n")
    headers = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines[1:])}
    status = int(lines[0].split(" ")[1])
    if headers.get("transfer-encoding") == "chunked":
        return Got(mark, status, headers, *_unchunked(rest))
    wanted = 0 if status in (204, 304) else int(headers["content-length"])
    return Got(mark, status, headers, rest, len(rest) == wanted)


def _unchunked(rest: bytes) -> tuple[bytes, bool]:
    body, at = [], 0
    while (ends := rest.find(b"\r\n", at)) >= 0:
        size = int(rest[at:ends], 16)
        if size == 0:
            return b"".join(body), rest[ends:] == b"\r\n\r\n"
        at = ends + 2 + size
        body.append(rest[ends + 2 : at])
        if rest[at : at + 2] != b"\r\n":
            break
        at += 2
    return b"".join(body), False


def reset(writer: asyncio.StreamWriter) -> None:
    """Ends a connection by RST, whatever is unsent or unread."""
    sock: socket.socket = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
