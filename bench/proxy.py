"""The least an aiohttp proxy pays: each request goes to the upstream named on the command line, nothing is kept.

Prints where it listens as one JSON line.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
from plain import serve

Message = dict[str, Any]


class Proxy:
    def __init__(self, upstream: str):
        self._upstream = upstream
        self._session: aiohttp.ClientSession | None = None

    async def __call__(
        self, scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=256), auto_decompress=False)
        url = self._upstream + scope["path"]
        async with self._session.post(url, data=body, headers={"content-type": "application/json"}) as came:
            framing = ("transfer-encoding", "content-type", "content-length")
            headers = [(n.encode(), came.headers[n].encode()) for n in framing if n in came.headers]
            await send({"type": "http.response.start", "status": came.status, "headers": headers})
            async for chunk in came.content.iter_any():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})


if __name__ == "__main__":
    serve(Proxy(sys.argv[1]))
