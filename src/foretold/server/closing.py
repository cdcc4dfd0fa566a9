"""Answers to HTTP/1.0, which knows no chunks: the end of the connection is the end of the answer (RFC 9112 section
6.3).

Uses these attributes of the pinned `RequestResponseCycle`, which are not promised: `chunked_encoding`, `disconnected`,
`expected_content_length`, `response_complete`, `response_started` and `transport`.
"""

from __future__ import annotations

import sys
from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from foretold.server.crowd import reset


class CloseDelimited(RequestResponseCycle):
    """One that breaks off is reset, so that its caller doesn't take what came for all of it."""

    async def run_asgi(self, app: Any) -> None:
        async def until_broken_off(scope: Any, receive: Any, send: Any) -> None:
            await app(scope, receive, send)
            if self.response_started and not self.response_complete and not self.disconnected:
                self.disconnected = True
                reset(self.transport)

        await super().run_asgi(until_broken_off)

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            if not any(name.lower() == b"content-length" for name, _ in message.get("headers", ())):
                self.chunked_encoding = False
                self.expected_content_length = sys.maxsize
        elif self.expected_content_length > sys.maxsize // 2 and not message.get("more_body", False):
            self.expected_content_length = len(message.get("body", b""))
        await super().send(message)
