"""Known requests answered from the protocol itself, in one write, before a task is made or an application runs.

A request is known here by the raw bytes of its head.  They come into the memo only through the application, once the
real parser, the guards and the credential have accepted them (`keep_plain` says which heads are plain enough), so no
question of framing is ever decided in this file.  What is not known, or not to be answered at once, goes on to uvicorn
byte for byte as it came; what was found out on the way goes with it, so that no work is done twice.

Uses these attributes of the pinned `HttpToolsProtocol`, which are not promised: `connections`, `cycle`, `flow`, `loop`,
`limit_concurrency`, `scope`, `server_state`, `timeout_keep_alive`, `timeout_keep_alive_task`, `transport` and
`_unset_keepalive_if_required`; tests/unit/server/test_protocol.py names them and fails clearly when one goes.
"""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any, NamedTuple

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from foretold.answers.answer import Hit, RawHeaders, lines_of
from foretold.errors import ForetoldError
from foretold.memo import Head, Memo, Plain
from foretold.node import Node
from foretold.outcome import Outcome
from foretold.prepared import Prepared
from foretold.server.bodies import Bodies
from foretold.server.protocol import BODY_GRACE_S, LimitedProtocol

# Most clients send head and body in two writes: so much of a known request is held until its body is here.
LONGEST_HELD = 64 * 1024
# A longer body goes out as it lies in memory.
LONGEST_COPIED = 8 * 1024
# Under this name the application finds a Came in its scope.
CAME = "foretold"

_PLAIN_METHODS = frozenset({"POST", "QUERY", "GET"})
_NEVER_PLAIN = frozenset({b"transfer-encoding", b"expect", b"upgrade", b"content-encoding"})
_LENGTH = re.compile(rb"0|[1-9][0-9]{0,9}")
_LENGTH_FIELD = re.compile(rb"\r\ncontent-length: ?(0|[1-9][0-9]{0,9})\r\n", re.IGNORECASE)


class Read(NamedTuple):
    """A request that was read whole and is not answered from what is near."""

    prepared: Prepared
    outcome: Outcome
    body_bytes: int


class Came(NamedTuple):
    """How a request came: the bytes of its head, the head they are known as, and what was read of it, if it was."""

    raw: bytes
    head: Head | None = None
    read: Read | None = None


class Front:
    """What all connections of a server share: the node, the room for bodies, and the lines every answer begins with."""

    def __init__(self, node: Node, bodies: Bodies):
        self.node = node
        self.bodies = bodies
        self._default_headers: RawHeaders = ()
        self._first_lines: dict[int, bytes] = {}

    def first_lines(self, status: int, default_headers: RawHeaders) -> bytes:
        """Status line and date; uvicorn makes a new list of default headers each second."""
        if default_headers is not self._default_headers:
            self._default_headers, self._first_lines = default_headers, {}
        lines = self._first_lines.get(status)
        if lines is None:
            lines = self._first_lines[status] = STATUS_LINE[status] + lines_of(default_headers)
        return lines


def keep_plain(memo: Memo, raw: bytes, head: Head, scope: dict[str, Any]) -> bool:
    """Lets an accepted head be known by its bytes alone; False for any head that is the least bit odd.

    `scope` is what the parser made of these bytes.
    """
    length = _announced(raw, scope)
    if length is None:
        return False
    memo.keep_plain(raw, Plain(head, length))
    if (field := _LENGTH_FIELD.search(raw)) is not None:
        memo.keep_head(_without_length(raw, field), head)
    return True


def plain(memo: Memo, raw: bytes, *, limit_bytes: int) -> Plain | None:
    """What is known of these bytes: accepted as they are, or but for the digits of their one Content-Length."""
    known = memo.plain(raw)
    if known is None and (field := _LENGTH_FIELD.search(raw)) is not None and int(field[1]) <= limit_bytes:
        head = memo.head(_without_length(raw, field))
        if head is not None:
            known = Plain(head, int(field[1]))
            memo.keep_plain(raw, known)
    return known


def _announced(raw: bytes, scope: dict[str, Any]) -> int | None:
    headers, method = scope["headers"], scope["method"]
    lines = len(headers) + 2
    if scope["http_version"] != "1.1" or method not in _PLAIN_METHODS:
        return None
    if raw.count(b"\r\n") != lines or raw.count(b"\n") != lines or raw.count(b"\r") != lines:
        return None
    if not raw.startswith(method.encode() + b" "):
        return None
    if any(n in _NEVER_PLAIN or (n == b"connection" and v.lower() != b"keep-alive") for n, v in headers):
        return None
    lengths = [value for name, value in headers if name == b"content-length"]
    if method == "GET":
        return None if lengths else 0
    return int(lengths[0]) if len(lengths) == 1 and _LENGTH.fullmatch(lengths[0]) else None


def _without_length(raw: bytes, field: re.Match[bytes]) -> bytes:
    return raw[: field.start(1)] + raw[field.end(1) :]


def peeking(base: type[LimitedProtocol], front: Front) -> type[LimitedProtocol]:
    """The protocol class that answers what the node of `front` knows."""
    return type("Peek", (Peek, base), {"front": front})


class Peek(LimitedProtocol):
    """Looks at a connection only between two requests; while anything else goes on, uvicorn gets every byte."""

    front: Front

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._held = b""
        self._held_until = 0
        self._came: Came | None = None
        self._answered_s = 0.0
        self._idle_check: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        if self._held:
            self._held += data
            if len(self._held) < self._held_until:
                return
            data = self._let_go()
        memo, limit_bytes = self.front.node.memo, self.front.bodies.limit_bytes
        while self._is_between_requests():
            head_end = data.find(b"\r\n\r\n") + 4
            if head_end < 4:
                break
            raw = data[:head_end]
            known = memo.plain(raw) or plain(memo, raw, limit_bytes=limit_bytes)
            if known is None:
                self._came = Came(raw)
                break
            end = head_end + known.body_bytes
            if len(data) < end:
                if self._hold(data, end):
                    return
                self._came = Came(raw, known.head)
                break
            if not self._answer(raw, known.head, data[head_end:end]):
                break
            data = data[end:]
            if not data:
                return
        super().data_received(data)
        self._came = None

    def on_headers_complete(self) -> None:
        if self._came is not None:
            self.scope[CAME] = self._came  # type: ignore[literal-required]
            self._came = None
        super().on_headers_complete()

    def waiting_since_s(self) -> float | None:
        if self._held and self._timer is not None:
            return self._timer.when() - self.body_timeout_s + BODY_GRACE_S
        since_s = super().waiting_since_s()
        return self._answered_s if since_s == 0 else since_s

    def connection_lost(self, exc: Exception | None) -> None:
        if self._idle_check is not None:
            self._idle_check.cancel()
        if self._held:
            # It counts as every request does whose caller leaves before its body is whole.
            super().data_received(self._let_go())
        super().connection_lost(exc)

    def shutdown(self) -> None:
        if self._held:
            super().data_received(self._let_go())  # it has begun: it may end
        super().shutdown()

    def _is_between_requests(self) -> bool:
        cycle = self.cycle
        return (
            self._awaits == "head"
            and not self._head_bytes
            and (cycle is None or cycle.response_complete)
            and not self.flow.write_paused
            and (self.limit_concurrency is None or len(self.connections) < self.limit_concurrency)
        )

    def _answer(self, raw: bytes, head: Head, body: bytes) -> bool:
        """Whether the answer went out; else what was found out is in `_came`."""
        node, counters = self.front.node, self.front.node.counters
        began_s = time.monotonic()
        hit = node.find(head, body)
        if hit is None:
            outcome = Outcome(began_s * 1000)
            try:
                near = node.near(head, body, outcome)
            except ForetoldError:
                # The application meets it again, and tells it in the caller's own dialect.
                self._came = Came(raw, head)
                return False
            if not isinstance(near, Hit):
                self._came = Came(raw, head, Read(near, outcome, len(body)))
                return False
            hit = near
        first = self.front.first_lines(hit.status, self.server_state.default_headers)
        if len(hit.body) <= LONGEST_COPIED:
            self.transport.write(b"".join((first, hit.lines, head.cors_lines, b"\r\n", hit.body)))
        else:
            self.transport.writelines((b"".join((first, hit.lines, head.cors_lines, b"\r\n")), hit.body))
        now_s = time.monotonic()
        counters.received += 1
        counters.account_hit(hit, took_ms=(now_s - began_s) * 1000)
        # The keep-alive time begins anew; one timer looks now and then, instead of a new one for each answer.
        self._answered_s = now_s
        if self._idle_check is None:
            self._idle_check = self.loop.call_later(self.timeout_keep_alive, self._close_if_idle)
        if self._timer is not None:
            self._stop_timer()
        if self.timeout_keep_alive_task is not None:
            self._unset_keepalive_if_required()
        return True

    def _hold(self, data: bytes, end: int) -> bool:
        """Whether the beginning of a known request is held until the rest is here."""
        if end > LONGEST_HELD or not self.front.bodies.reserve(end):
            return False
        self._held, self._held_until = data, end
        self._stop_timer()
        self._unset_keepalive_if_required()
        self._timer = self.loop.call_later(self.body_timeout_s, self._held_too_long)
        return True

    def _let_go(self) -> bytes:
        self.front.bodies.release(self._held_until)
        self._stop_timer()
        data, self._held = self._held, b""
        return data

    def _held_too_long(self) -> None:
        super().data_received(self._let_go())
        self._stop_timer()
        self._too_slow()

    def _close_if_idle(self) -> None:
        self._idle_check = None
        if self.timeout_keep_alive_task is not None or self._held or not self._is_between_requests():
            return  # another clock runs
        left_s = self._answered_s + self.timeout_keep_alive - time.monotonic()
        if left_s > 0:
            self._idle_check = self.loop.call_later(left_s, self._close_if_idle)
        else:
            self.transport.close()
