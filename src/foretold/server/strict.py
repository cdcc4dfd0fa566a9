"""uvicorn's HTTP protocol, held to one reading of every byte: what is odd is refused, and nothing after it is read.

Answers go out in the order of their requests, also the last one, which says why the connection ends.  A wish to
change the protocol (`Upgrade: h2c`, as Java's client sends it) is left unheard and the request served as it is.

Uses these attributes of the pinned `HttpToolsProtocol`, which are not promised: `cycle`, `expect_100_continue`,
`flow`, `headers`, `loop`, `parser`, `pipeline`, `transport`, `url`, `_start_asgi_task`, `_unset_keepalive_if_required`
and the parser's callbacks; of its `RequestResponseCycle`: `disconnected`, `keep_alive`, `message_event`,
`response_complete`, `response_started`.  tests/unit/server/test_protocol.py names them and fails clearly when one goes.
"""

from __future__ import annotations

from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from foretold.errors import ForetoldError, Overloaded
from foretold.server.closing import CloseDelimited
from foretold.server.forms import check_form, without_upgrade
from foretold.server.refusals import TOO_SPARSE, fault_of, written

# Requests that wait on one connection for those before them.
MOST_AHEAD = 128
# Sizes of chunks, their extensions and trailers: so much, and so much for each byte of the body.
SPARSE_BYTES = 128 * 1024
SPARSE_SHARE = 8
# What is read in one go, however much has come: what goes together is then counted the same way, however it came.
SLICE_BYTES = 64 * 1024
# Whoever still sends when the last answer goes out would lose it if the connection were closed at once.
LINGER_S = 1.0
# A caller that shut its sending side may still read, or may be gone: it gets what is ready in this time.
HALF_CLOSED_S = 0.25


class StrictProtocol(HttpToolsProtocol):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # "head", "body", or "nothing": then no byte that comes is read any more.
        self._awaits = "head"
        self._head_bytes = 0
        self._answering: Any = None
        self._last_words = b""
        self._leaves_upgrade = False
        self._body_bytes = 0
        self._wire_bytes = 0
        self._make_strict()

    @property
    def _is_busy(self) -> bool:
        """Whether an answer is being made: the oldest of those that are still to go out."""
        return self._answering is not None and not self._answering.response_complete

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes += 1  # it may have begun in the same read as the one before it ended

    def on_headers_complete(self) -> None:
        version, method = self.parser.get_http_version(), self.parser.get_method()
        check_form(version, method=method, target=self.url, headers=self.headers)
        if version == "1.0":
            self.expect_100_continue = False  # it knows no interim answers
        if self.parser.should_upgrade():
            self._leaves_upgrade = True
            return
        if len(self.pipeline) >= MOST_AHEAD:
            raise Overloaded(f"more than {MOST_AHEAD} requests wait on one connection for those before them")
        super().on_headers_complete()
        self._body_bytes = self._wire_bytes = 0
        self.headers = []  # trailers come as headers do: they must not join those that were checked

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._leaves_upgrade:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._is_busy or self.transport.is_closing():
            return
        if self._awaits == "nothing":
            self._hang_up(self._last_words)
        elif self._awaits == "body" and self.expect_100_continue:
            # Answered before the body was asked for: what comes next may be the body, or the next request.
            self._hang_up(b"")

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """Whether the connection stays open for an answer."""
        if self._awaits != "head" or self._head_bytes or not self._is_busy:
            return False
        self._awaits = "nothing"
        self.cycle.keep_alive = False
        self.loop.call_later(HALF_CLOSED_S, self.transport.close)
        return True

    def _feed(self, data: bytes) -> None:
        if self._awaits == "nothing":
            return
        self._unset_keepalive_if_required()
        try:
            if len(data) <= SLICE_BYTES:
                self._parse(data)
                return
            for at in range(0, len(data), SLICE_BYTES):
                if self._awaits != "nothing":
                    self._parse(data[at : at + SLICE_BYTES])
        except httptools.HttpParserError as error:
            self._refuse(fault_of(error))

    def _parse(self, data: bytes) -> None:
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:  # read up to the end of that head
                data = self._plain_head() + data[upgrade.args[0] :]
            else:
                break
        if self._awaits == "body":
            self._wire_bytes += len(data)
            if self._wire_bytes > SPARSE_BYTES + SPARSE_SHARE * self._body_bytes:
                self._refuse(TOO_SPARSE)

    def _plain_head(self) -> bytes:
        """The head that was just read, to be read again without its upgrade; the parser has left HTTP by then."""
        version, method = self.parser.get_http_version(), self.parser.get_method()
        head = without_upgrade(version, method=method, target=self.url, headers=self.headers)
        self._leaves_upgrade = False
        self.parser = httptools.HttpRequestParser(self)
        self._make_strict()
        return head

    def _make_strict(self) -> None:
        # uvicorn lets bytes follow a request that said it was the last.
        self.parser.set_dangerous_leniencies(lenient_data_after_close=False)

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._answering = cycle
        if cycle.scope["http_version"] == "1.0":
            cycle.__class__ = CloseDelimited
        super()._start_asgi_task(cycle, app)

    def _refuse(self, error: ForetoldError) -> None:
        """Tells why no more is read, after all answers that are still to go out, and ends the connection."""
        if self._awaits == "nothing" or self.transport.is_closing():
            return
        broken = self.cycle if self._awaits == "body" else None
        self._awaits = "nothing"
        if broken is not None and broken is not self._answering:
            self.pipeline.popleft()  # it waits for its turn, the newest of all
        elif broken is not None:
            broken.disconnected = True
            broken.message_event.set()
            if broken.response_started:
                self.transport.close()  # already told why; the rest of the body is of no use
            else:
                self._hang_up(written(error))
            return
        if self._is_busy:
            self._last_words = written(error)
        else:
            self._hang_up(written(error))

    def _hang_up(self, last_words: bytes) -> None:
        self._awaits = "nothing"
        self._unset_keepalive_if_required()
        self.transport.write(last_words)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(LINGER_S, self.transport.close)
