"""Kept connections to an upstream, of which none is used again that said a word unasked.

HTTP/1.1 ties an answer to its question by their order alone.  So an answer nobody asked for, a second one or the 408 of
an idle connection, would be told to whoever asks next, and be kept under that question's key.  What can't be seen is an
unasked answer that is still on its way while the next question goes out; the time for that is the one of the network.
"""

from __future__ import annotations

import functools
import select
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler


class OneAnswerEach(aiohttp.TCPConnector):
    """Makes `Wire`s, and tells each when it rests."""

    def __init__(self, *, limit: int, ttl_dns_cache: int):
        super().__init__(limit=limit, ttl_dns_cache=ttl_dns_cache)
        kind: type[ResponseHandler] = Wire
        self._factory = functools.partial(kind, loop=self._loop)

    def _release(self, key: Any, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        if isinstance(protocol, Wire):
            protocol.is_resting = True
        super()._release(key, protocol, should_close=should_close)


class Wire(ResponseHandler):
    """One connection.  It rests from the end of an answer until the next question, and any byte then is its end."""

    is_resting = False

    def set_response_params(self, **params: Any) -> None:
        self.is_resting = False
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        if self.is_resting and data:  # no bytes mean only: read on
            if self.transport is not None:
                self.transport.abort()
            return
        super().data_received(data)

    def is_connected(self) -> bool:
        """While it rests: whether it can take another question."""
        if not super().is_connected():
            return False
        return not self.is_resting or not (self.should_close or self._has_begun_another() or self._is_readable())

    def _has_begun_another(self) -> bool:
        """Whether part of a head came behind the answer, in the same piece."""
        try:
            return self._parser is not None and self._parser.feed_eof() is not None
        except Exception:  # noqa: BLE001 - whatever it is, it is no clean end
            return True

    def _is_readable(self) -> bool:
        """Whether bytes, or the end, lie in the kernel unread."""
        assert self.transport is not None
        poll = select.poll()
        poll.register(self.transport.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(poll.poll(0))
