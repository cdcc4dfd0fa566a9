"""The server's HTTP protocol with the limits it lacks: how long a request may be and may take to come, and how many
wait.

Uses these attributes of the pinned `HttpToolsProtocol`, which are not promised: `loop`, `transport`, `cycle`,
`timeout_keep_alive`, `timeout_keep_alive_task`, `timeout_keep_alive_handler` and the parser's callbacks;
tests/unit/server/test_protocol.py names them and fails clearly when one goes.
"""

from __future__ import annotations

import asyncio
from typing import Any

from foretold.server.crowd import Crowd
from foretold.server.guard import MAX_HEAD_BYTES
from foretold.server.refusals import HEAD_TOO_LARGE, TOO_SLOW, full, written
from foretold.server.strict import StrictProtocol

# Room for the request line and for what the guard itself refuses with an answer in the caller's dialect.
LONGEST_HEAD_READ = 4 * MAX_HEAD_BYTES
# A body that has been on its way for so long gives way to a newcomer.
BODY_GRACE_S = 10.0


def protocol_with(
    *, head_timeout_s: float, body_timeout_s: float, keep_alive_s: float, crowd: Crowd
) -> type[LimitedProtocol]:
    """The protocol class for a server with these limits."""
    limits = {
        "head_timeout_s": head_timeout_s,
        "body_timeout_s": body_timeout_s,
        "keep_alive_s": keep_alive_s,
        "crowd": crowd,
    }
    return type("LimitedProtocol", (LimitedProtocol,), limits)


class LimitedProtocol(StrictProtocol):
    """A timer runs only while a request has come in part: one that comes at once costs nothing."""

    head_timeout_s: float
    body_timeout_s: float
    keep_alive_s: float
    crowd: Crowd

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.timeout_keep_alive = self.keep_alive_s  # type: ignore[assignment]
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_timer(self.head_timeout_s)
        self.crowd.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)
        self.crowd.leave(self)

    def data_received(self, data: bytes) -> None:
        if self._awaits == "head":
            self._head_bytes += len(data)
        self._feed(data)
        if self._awaits == "head" and self._head_bytes:
            if self._head_bytes > LONGEST_HEAD_READ:
                self._refuse(HEAD_TOO_LARGE)
            elif self._timer is None:
                self._start_timer(self.head_timeout_s)
        elif self._awaits == "body" and self._timer is None:
            self._start_timer(self.body_timeout_s)
        elif self._awaits == "head" and not self._is_busy:
            self._keep_alive()

    def on_headers_complete(self) -> None:
        if self.crowd.is_over:
            raise full()
        super().on_headers_complete()
        self._awaits = "body"
        self._stop_timer()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._awaits = "head"
        self._head_bytes = 0
        self._stop_timer()

    def waiting_since_s(self) -> float | None:
        """Since when it waits for its caller, on the loop's clock; None while an answer is made."""
        if self._awaits == "body" and self._timer is not None:
            return self._timer.when() - self.body_timeout_s + BODY_GRACE_S
        if self._is_busy:
            return None
        if self._timer is not None:
            return self._timer.when() - self.head_timeout_s
        if self.timeout_keep_alive_task is not None:
            return self.timeout_keep_alive_task.when() - self.keep_alive_s
        return 0.0

    def give_way(self) -> None:
        """Closes it in favour of another; whoever has asked nothing since its last answer needs no reason."""
        if self._timer is not None and self._awaits != "nothing":
            self.transport.write(written(full()))
        self._awaits = "nothing"
        self.transport.close()

    def _keep_alive(self) -> None:
        """After a body whose request was answered before it had come whole: no other clock runs then."""
        if self.timeout_keep_alive_task is None and not self.transport.is_closing():
            self.timeout_keep_alive_task = self.loop.call_later(self.keep_alive_s, self.timeout_keep_alive_handler)

    def _start_timer(self, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self._too_slow)

    def _too_slow(self) -> None:
        self._timer = None
        if self._is_busy and (self._awaits == "head" or self.cycle is not self._answering):
            # It is we who read no more of it, until those before it are answered.
            self._start_timer(self.head_timeout_s if self._awaits == "head" else self.body_timeout_s)
        else:
            self._refuse(TOO_SLOW)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
