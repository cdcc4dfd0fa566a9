"""Kept connections to an upstream, of which none is used again that said a word unasked.

HTTP/1.1 ties an answer to its question by their order alone.  So an answer nobody asked for, a second one or the 408 of
an idle connection, would be told to whoever asks next, and be kept under that question's key.  What can't be seen is an
unasked answer that is still on its way while the next question goes out; the time for that is the one of the network.
"""

from __future__ import annotations

import asyncio
import functools
import select
import socket
import ssl
from typing import Any

import aiohappyeyeballs
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

    async def _wrap_create_connection(
        self,
        *args: Any,
        addr_infos: list[Any],
        req: aiohttp.ClientRequest,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - the client gives it by this name
        client_error: type[Exception] = aiohttp.ClientConnectorError,
        **kwargs: Any,
    ) -> tuple[asyncio.Transport, ResponseHandler]:
        """As the client has it, but that a connected socket becomes a transport even if nobody waits any more."""
        try:
            async with asyncio.timeout(timeout.sock_connect):
                sock = await aiohappyeyeballs.start_connection(
                    addr_infos=addr_infos,
                    local_addr_infos=self._local_addr_infos,
                    happy_eyeballs_delay=self._happy_eyeballs_delay,
                    interleave=self._interleave,
                    loop=self._loop,
                    socket_factory=self._socket_factory,
                )
                if kwargs.get("ssl"):
                    kwargs["ssl_handshake_timeout"] = timeout.sock_connect
                return await self._carried_on(sock, *args, **kwargs)
        except ssl.CertificateError as e:
            raise aiohttp.ClientConnectorCertificateError(req.connection_key, e) from e
        except ssl.SSLError as e:
            raise aiohttp.ClientConnectorSSLError(req.connection_key, e) from e
        except OSError as e:
            if isinstance(e, TimeoutError) and e.errno is None:
                raise
            raise client_error(req.connection_key, e) from e

    async def _carried_on(
        self, sock: socket.socket, *args: Any, **kwargs: Any
    ) -> tuple[asyncio.Transport, ResponseHandler]:
        """A socket as a transport.  Whoever gives up meanwhile closes it, once it is one.

        uvloop cancelled here closes the file and leaves its number to the socket, which closes it again when it is
        forgotten: by then it is the file of another connection, of the store, of the door.
        """
        making = asyncio.ensure_future(self._loop.create_connection(*args, **kwargs, sock=sock))
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            making.add_done_callback(_abort_made)
            raise


def _abort_made(making: asyncio.Future[tuple[asyncio.Transport, ResponseHandler]]) -> None:
    if not making.cancelled() and making.exception() is None:
        making.result()[0].abort()


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
