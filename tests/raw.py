"""A caller that sends its own bytes, and reads answers strictly: one that is not framed as it says is an error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class RawAnswer:
    status: int
    headers: dict[str, str]
    body: bytes


class RawCaller:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self, *, within_s: float = 20) -> RawAnswer | None:
        """The next answer, or None if the connection ended, or was reset, where one could begin."""
        async with asyncio.timeout(within_s):
            try:
                head = await self.reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError as e:
                if e.partial:
                    raise AssertionError(f"the connection ended within a head: {e.partial[:100]!r}") from None
                return None
            except ConnectionError:
                return None
            lines = head.decode("latin-1").split("\r\n")
            version, status, _ = lines[0].split(" ", 2)
            assert version == "HTTP/1.1", lines[0]
            headers = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines[1:] if line)}
            return RawAnswer(int(status), headers, await self._body(int(status), headers))

    async def _body(self, status: int, headers: dict[str, str]) -> bytes:
        if status < 200 or status in (204, 304):
            return b""
        if headers.get("transfer-encoding") != "chunked":
            return await self.reader.readexactly(int(headers["content-length"]))
        got = b""
        while size := int((await self.reader.readuntil(b"\r\n"))[:-2], 16):
            got += await self.reader.readexactly(size)
            assert await self.reader.readexactly(2) == b"\r\n"
        assert await self.reader.readexactly(2) == b"\r\n"
        return got


@asynccontextmanager
async def calling(url: str) -> AsyncIterator[RawCaller]:
    """A connection to a node."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]), limit=2**20)
    try:
        yield RawCaller(reader, writer)
    finally:
        writer.transport.abort()
