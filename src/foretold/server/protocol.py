"""uvicorn's HTTP protocol with the limits it lacks: how long a request's head may be, and how long it may take to come.

Uses these attributes of the pinned `HttpToolsProtocol`, which are not promised: `loop`, `transport`, `cycle` and the
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


def protocol_with(*, head_timeout_s: float, body_timeout_s: float) -> type[LimitedProtocol]:
    """The protocol class for a server with these time limits."""
    limits = {"head_timeout_s": head_timeout_s, "body_timeout_s": body_timeout_s}
    return type("LimitedProtocol", (LimitedProtocol,), limits)


class LimitedProtocol(HttpToolsProtocol):
    """A timer runs only while a request has come in part: one that comes at once costs nothing."""

    head_timeout_s = 10.0
    body_timeout_s = 60.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._awaits = "head"
        self._head_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_timer(self.head_timeout_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._awaits == "head":
            self._head_bytes += len(data)
        super().data_received(data)
        if self._awaits == "head" and self._head_bytes:
            if self._head_bytes > LONGEST_HEAD_READ:
                self._refuse(_TOO_LARGE)
            elif self._timer is None:
                self._start_timer(self.head_timeout_s)
        elif self._awaits == "body" and self._timer is None:
            self._start_timer(self.body_timeout_s)

    def on_headers_complete(self) -> None:
        self._awaits = "body"
        self._stop_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._awaits = "head"
        self._head_bytes = 0
        self._stop_timer()

    def _start_timer(self, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self._too_slow)

    def _too_slow(self) -> None:
        self._timer = None
        if self._awaits == "body" and self.cycle is not None and self.cycle.response_started:
            self.transport.close()  # already told why; the rest of the body is of no use
        else:
            self._refuse(_TOO_SLOW)

    def _refuse(self, answer: bytes) -> None:
        self._stop_timer()
        if not self.transport.is_closing():
            self.transport.write(answer)
            self.transport.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
