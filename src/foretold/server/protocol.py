"""uvicorn's HTTP protocol with the limits it lacks: how long a request's head may be, and how long it may take.

Uses these attributes of the pinned `HttpToolsProtocol`, which are not promised: `loop`, `transport`, `parser` and the
parser's callbacks; tests/unit/server/test_protocol.py names them and fails clearly when one goes.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from foretold.server.guard import MAX_HEAD_BYTES

# Room for the request line and for what the guard itself refuses with an answer in the caller's dialect.
LONGEST_HEAD_READ = 4 * MAX_HEAD_BYTES

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def protocol_with(*, head_timeout_s: float) -> type[HttpToolsProtocol]:
    """The protocol class for a server with this time limit."""
    return type("LimitedProtocol", (LimitedProtocol,), {"head_timeout_s": head_timeout_s})


class LimitedProtocol(HttpToolsProtocol):
    head_timeout_s = 10.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._is_in_head = True
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head_timer = self.loop.call_later(self.head_timeout_s, self._head_is_too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._head_bytes = self._head_bytes + len(data) if self._is_in_head else 0
        super().data_received(data)
        if not self._is_in_head:
            return
        if self._head_bytes > LONGEST_HEAD_READ:
            self._refuse(_TOO_LARGE)
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_timeout_s, self._head_is_too_slow)

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._stop_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._is_in_head = True
        self._head_bytes = 0

    def _head_is_too_slow(self) -> None:
        self._head_timer = None
        self._refuse(_TOO_SLOW)

    def _refuse(self, answer: bytes) -> None:
        self._stop_timer()
        if not self.transport.is_closing():
            self.transport.write(answer)
            self.transport.close()

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
