"""The node as a plain ASGI application: guards, then `find`, then the long way; every query accounted once.

Under our own protocol most hits never come here, and what it found out of the others comes in the scope (peek.py).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from foretold.answers.answer import Answer, Hit, RawHeaders, raw
from foretold.contract.status import CacheStatus
from foretold.dialects.openai import OpenAI
from foretold.errors import Ambiguous, ForetoldError, NotKept, OriginBusy, OriginError, Overloaded, Refused, TooLarge
from foretold.memo import Head
from foretold.node import Node
from foretold.outcome import Ended, How, Outcome
from foretold.ports import Dialect, Request
from foretold.prepared import Prepared
from foretold.server.admin import Admin
from foretold.server.bodies import Bodies, CallerGone, Receive, overloaded
from foretold.server.cors import cors, preflight
from foretold.server.guard import Guard
from foretold.server.models import Models
from foretold.server.peek import CAME, Came, Front, Read, keep_plain

Send = Callable[[dict[str, Any]], Awaitable[None]]
Scope = dict[str, Any]

_log = logging.getLogger("foretold")
_ERRORS_BEFORE_A_DIALECT = OpenAI("", "")
_BUCKETS = "helicone-cache-bucket-max-size"


class Line:
    """Where an answer is sent, and whether all of it was: after that, a caller who leaves has missed nothing."""

    def __init__(self, send: Send):
        self.is_done = False
        self._send = send

    async def __call__(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body" and not message["more_body"]:
            self.is_done = True
        await self._send(message)


class App:
    def __init__(self, node: Node, *, guard: Guard, bodies: Bodies, admin: Admin, models: Models):
        self._node = node
        self._guard = guard
        self._bodies = bodies
        self.admin = admin
        self._models = models
        self.front = Front(node, bodies)

    def change(self, *, guard: Guard, models: Models) -> None:
        """From the next request on these decide."""
        self._guard = guard
        self._models = models

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        came: Came | None = scope.get(CAME)
        if came is not None and came.read is not None:
            self._node.counters.receive()
            await self._read_before(came.read, receive, send)
            return
        guard = self._guard
        head = self._node.memo.head(_as_parsed(scope)) if came is None or came.head is None else came.head
        if head is None:
            head = await self._accepted(came, scope, receive, send)
            if head is None:
                return
        else:
            self._node.counters.receive()
        await self._query(head, guard, scope, receive, send)

    async def _accepted(self, came: Came | None, scope: Scope, receive: Receive, send: Send) -> Head | None:
        """The head of a query, or None once something else was answered."""
        request: Request | None = None
        try:
            request = self._guard.request_of(scope)
            if request.method == "OPTIONS" and any(n == "access-control-request-method" for n, _ in request.headers):
                await _send(send, 204, raw(preflight(request)), b"")
                return None
            if request.path.startswith("/-/"):
                status, headers, body = await self.admin.answer(request, receive)
                await _send(send, status, raw(headers), body)
                return None
            if request.method == "GET" and (listed := await self._models.answer(request)) is not None:
                await _send(send, 200, raw([("content-type", "application/json"), *cors(request)]), listed)
                return None
            head = self._guard.head_of(request)
        except CallerGone:
            return None
        except ForetoldError as error:
            outcome = Outcome(time.monotonic() * 1000)
            self._node.counters.receive()
            dialect = self._guard.dialect_or(request, _ERRORS_BEFORE_A_DIALECT)
            await self._tell(error, dialect, raw(cors(request)) if request is not None else (), outcome, send)
            return None
        self._node.counters.receive()
        if any(name == _BUCKETS for name, _ in request.headers):
            return head  # drawn anew each time
        if came is None or not keep_plain(self._node.memo, came.raw, head, scope):
            self._node.memo.keep_head(_as_parsed(scope), head)
        return head

    async def _read_before(self, read: Read, receive: Receive, send: Send) -> None:
        """A query whose body was read by the protocol; the parser has it too, and it goes with the connection."""
        if not self._bodies.reserve(read.body_bytes):
            head = read.prepared.head
            await self._tell(overloaded(), head.dialect, head.cors, read.outcome, send)
            return
        try:
            await self._attended(read.prepared, read.outcome, receive, send)
        finally:
            self._bodies.release(read.body_bytes)

    async def _query(self, head: Head, guard: Guard, scope: Scope, receive: Receive, send: Send) -> None:
        """A query whose head this guard has accepted."""
        began_ms = time.monotonic() * 1000
        try:
            body = await self._bodies.read(receive)
        except CallerGone:
            self._node.account(Outcome(began_ms, ended=Ended.GONE))
            return
        except ForetoldError as error:
            await self._tell(error, head.dialect, head.cors, Outcome(began_ms), send)
            return
        outcome = Outcome(began_ms)
        try:
            now = head if guard is self._guard else await self._accepted_now(head, outcome, scope, send)
            if now is not None:
                await self._answer(now, body, outcome, receive, send)
        finally:
            self._bodies.release(len(body))

    async def _accepted_now(self, head: Head, outcome: Outcome, scope: Scope, send: Send) -> Head | None:
        """The head by the settings that came into force while its body came; None once it was refused."""
        try:
            return self._guard.head_of(self._guard.request_of(scope))
        except ForetoldError as error:
            await self._tell(error, head.dialect, head.cors, outcome, send)
            return None

    async def _answer(self, head: Head, body: bytes, outcome: Outcome, receive: Receive, send: Send) -> None:
        try:
            known = self._node.find(head, body) or self._node.near(head, body, outcome)
        except ForetoldError as error:
            await self._tell(error, head.dialect, head.cors, outcome, send)
            return
        if isinstance(known, Prepared):
            await self._attended(known, outcome, receive, send)
            return
        known.tell(outcome)
        try:
            await self._send_whole(known, head, outcome, send)
        finally:
            self._node.account(outcome)

    async def _long_way(self, prepared: Prepared, outcome: Outcome, send: Send) -> None:
        head = prepared.head
        try:
            answer = await self._node.far(prepared, outcome)
        except ForetoldError as error:
            await self._tell(error, head.dialect, head.cors, outcome, send, accounted=False)
            return
        if isinstance(answer, Hit):
            await self._send_whole(answer, head, outcome, send)
            return
        try:
            if answer.chunks is None:
                await self._send_whole(answer, head, outcome, send)
            else:
                await self._send_chunks(answer, head, send)
        finally:
            if answer.close is not None:
                await answer.close()

    async def _send_whole(self, answer: Answer | Hit, head: Head, outcome: Outcome, send: Send) -> None:
        headers = [*answer.headers, *head.cors] if head.cors else answer.headers
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body, "more_body": False})
        outcome.status, outcome.body_bytes, outcome.ended = answer.status, len(answer.body), Ended.WHOLE

    async def _send_chunks(self, answer: Answer, head: Head, send: Send) -> None:
        assert answer.chunks is not None
        outcome = answer.outcome
        await send({"type": "http.response.start", "status": answer.status, "headers": [*answer.headers, *head.cors]})
        try:
            async for chunk in answer.chunks:
                outcome.body_bytes += len(chunk)
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except OriginError:
            # Half an answer went out: an end without the last chunk is how HTTP says that it is not whole.
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        if outcome.ended is not Ended.CUT:
            outcome.ended = Ended.WHOLE

    async def _attended(self, prepared: Prepared, outcome: Outcome, receive: Receive, send: Send) -> None:
        """Goes the long way unless the caller leaves first, which is noticed before the first token too."""
        here = asyncio.current_task()
        assert here is not None
        line = Line(send)

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            if not line.is_done:
                outcome.ended = Ended.GONE
                here.cancel()

        watching = asyncio.create_task(watch())
        try:
            await self._long_way(prepared, outcome, line)
        except asyncio.CancelledError:
            if outcome.ended is not Ended.GONE or here.uncancel() > 0:
                raise
        finally:
            watching.cancel()
            self._node.account(outcome)

    async def _tell(
        self,
        error: ForetoldError,
        dialect: Dialect,
        cors: RawHeaders,
        outcome: Outcome,
        send: Send,
        *,
        accounted: bool = True,
    ) -> None:
        """An error in the caller's own dialect."""
        if isinstance(error, NotKept):
            status = CacheStatus(forwarded="request", detail="only-if-cached")
        else:
            outcome.how = How.ERROR
            if error.__cause__ is not None:
                # Callers get no names of files or processes; whoever runs the node does.
                _log.warning("%s: %s", error, error.__cause__)
            code = error.code_here if isinstance(error, Refused) else error.code
            status = CacheStatus(detail="backoff" if error.is_echo else code)
        outcome.detail = status.detail
        outcome.status = error.status_here if isinstance(error, Refused) else error.status
        kind, body = dialect.tell(error)
        headers = [("content-type", kind), ("cache-status", str(status)), ("cache-control", "no-store")]
        if outcome.status == 401:
            headers.append(("www-authenticate", "Bearer"))
        if isinstance(error, (Overloaded, OriginBusy)) or error.is_echo:
            headers.append(("retry-after", "1"))
        if isinstance(error, NotKept):
            headers.append(("x-should-retry", "false"))  # OpenAI's clients ask a 504 again
        if isinstance(error, (TooLarge, Overloaded, Ambiguous)):
            headers.append(("connection", "close"))
        await _send(send, outcome.status, [*raw(headers), *cors], body)
        outcome.ended, outcome.body_bytes = Ended.ERROR, len(body)
        if accounted:
            self._node.account(outcome)


def _as_parsed(scope: Scope) -> object:
    """All that guards and names depend on."""
    return scope["method"], scope["raw_path"], scope["query_string"], tuple(scope["headers"])


async def _send(send: Send, status: int, headers: RawHeaders, body: bytes) -> None:
    if status != 204:
        headers = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
