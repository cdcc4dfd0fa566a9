"""Request bodies: read whole, within limits of size, time and of all bodies together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from foretold.errors import Overloaded, Refused, TooLarge
from foretold.ports import Request

Receive = Callable[[], Awaitable[dict[str, Any]]]


class CallerGone(Exception):
    """The caller closed the connection before its request was whole."""


class Bodies:
    def __init__(self, *, limit_bytes: int, together_bytes: int, timeout_s: float):
        self._limit_bytes = limit_bytes
        self._room_bytes = together_bytes
        self._timeout_s = timeout_s

    @contextmanager
    def room(self) -> Iterator[Reading]:
        """Holds the room that a body takes until its query has ended."""
        reading = Reading(self)
        try:
            yield reading
        finally:
            self._room_bytes += reading.held_bytes

    def take(self, count: int) -> None:
        if count > self._room_bytes:
            raise Overloaded("too many request bodies at once: try again in a moment")
        self._room_bytes -= count

    async def read(self, request: Request, receive: Receive, reading: Reading) -> bytes:
        """Raises TooLarge, Overloaded, Refused(408) or CallerGone."""
        length = next((value for name, value in request.headers if name == "content-length"), None)
        if length is not None and int(length) > self._limit_bytes:
            raise self._too_large()
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._read(receive, reading)
        except TimeoutError:
            raise Refused(
                f"the body did not come within {self._timeout_s:g} s", code="body_timeout", status=408
            ) from None

    async def _read(self, receive: Receive, reading: Reading) -> bytes:
        chunks: list[bytes] = []
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise CallerGone
            chunk: bytes = message.get("body", b"")
            if chunk:
                reading.hold(len(chunk))
                chunks.append(chunk)
                if reading.held_bytes > self._limit_bytes:
                    raise self._too_large()
            if not message.get("more_body", False):
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _too_large(self) -> TooLarge:
        return TooLarge(f"the body is longer than {self._limit_bytes} bytes: server.body_limit says how much is taken")


class Reading:
    """How much room one body holds."""

    def __init__(self, bodies: Bodies):
        self._bodies = bodies
        self.held_bytes = 0

    def hold(self, count: int) -> None:
        self._bodies.take(count)
        self.held_bytes += count
