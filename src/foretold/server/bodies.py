"""Request bodies: read whole, within limits of size and of all bodies together.

How long one may take to come is the protocol's to say (protocol.py): a clock for each would cost more than the rest.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from foretold.errors import Overloaded, TooLarge

Receive = Callable[[], Awaitable[dict[str, Any]]]


class CallerGone(Exception):
    """The caller closed the connection before its request was whole."""


class Bodies:
    def __init__(self, *, limit_bytes: int, together_bytes: int):
        self.limit_bytes = limit_bytes
        self._room_bytes = together_bytes

    async def read(self, receive: Receive) -> bytes:
        """A whole body; whoever has it gives its room back by `release`.  Raises TooLarge, Overloaded or CallerGone."""
        message = await receive()
        if not message.get("more_body", False) and message["type"] == "http.request":
            body: bytes = message.get("body", b"")
            self._take(len(body), so_far=0)
            return body
        return await self._read_on(message, receive)

    def reserve(self, count: int) -> bool:
        """Whether there was room for so many bytes; whoever took it gives it back by `release`."""
        if count > self._room_bytes:
            return False
        self._room_bytes -= count
        return True

    def release(self, count: int) -> None:
        self._room_bytes += count

    def check_announced(self, length: str) -> None:
        """Raises TooLarge for a `Content-Length` over the limit, before any of it is read."""
        if int(length) > self.limit_bytes:
            raise self._too_large()

    async def _read_on(self, message: dict[str, Any], receive: Receive) -> bytes:
        chunks: list[bytes] = []
        held = 0
        try:
            while True:
                if message["type"] == "http.disconnect":
                    raise CallerGone
                chunk: bytes = message.get("body", b"")
                self._take(len(chunk), so_far=held)
                held += len(chunk)
                chunks.append(chunk)
                if not message.get("more_body", False):
                    return b"".join(chunks)
                message = await receive()
        except BaseException:
            self._room_bytes += held
            raise

    def _take(self, count: int, *, so_far: int) -> None:
        if so_far + count > self.limit_bytes:
            raise self._too_large()
        if not self.reserve(count):
            raise overloaded()

    def _too_large(self) -> TooLarge:
        return TooLarge(f"the body is longer than {self.limit_bytes} bytes: server.body_limit says how much is taken")


def overloaded() -> Overloaded:
    return Overloaded("too many request bodies at once: try again in a moment")
