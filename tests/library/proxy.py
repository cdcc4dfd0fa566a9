"""Between a client and an object store: passes all on, remembers it, and answers wrongly where it is told to."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web
from yarl import URL

_NOT_PASSED = frozenset({"connection", "transfer-encoding", "keep-alive"})


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    query: str
    headers: dict[str, str]
    sent_bytes: int

    @property
    def is_part(self) -> bool:
        """Whether a part of a file was asked for, and not its beginning."""
        return self.method == "GET" and "blobs/" in self.path and "if-match" in self.headers

    @property
    def wanted(self) -> tuple[int, int]:
        """The bytes that were asked for: from, up to."""
        start, _, end = self.headers["range"].removeprefix("bytes=").partition("-")
        return int(start), int(end) + 1


@dataclass(frozen=True)
class Treat:
    """What is done with an answer, instead of passing it on."""

    status: int | None = None
    text: str = ""
    gives_bytes: int | None = None
    admits_it: bool = False
    cuts_after: int | None = None
    holds_after: int | None = None
    ignores_range: bool = False


@dataclass
class Proxy:
    """`treat` is asked for each request; `let_go` ends what is held."""

    target: str
    treat: Callable[[Asked], Treat | None] = lambda asked: None
    asked: list[Asked] = field(default_factory=list)
    let_go: asyncio.Event = field(default_factory=asyncio.Event)
    holding: asyncio.Event = field(default_factory=asyncio.Event)
    endpoint: str = ""

    async def __aenter__(self) -> Proxy:
        self._session = aiohttp.ClientSession(auto_decompress=False)
        app = web.Application(client_max_size=2**30)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        assert site._server is not None
        self.endpoint = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.let_go.set()
        await self._runner.cleanup()
        await self._session.close()

    @property
    def parts(self) -> list[Asked]:
        return [asked for asked in self.asked if asked.is_part]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        asked = Asked(request.method, request.raw_path.partition("?")[0], request.query_string, headers, len(body))
        self.asked.append(asked)
        treat = self.treat(asked) or Treat()
        if treat.status is not None:
            return web.Response(status=treat.status, text=treat.text)
        passed = {name: value for name, value in request.headers.items() if name.lower() not in _NOT_PASSED}
        async with self._session.request(
            request.method,
            URL(self.target + request.raw_path, encoded=True),
            headers=passed,
            data=io.BytesIO(body) if body else None,
            skip_auto_headers=("user-agent", "accept", "accept-encoding", "content-type"),
        ) as answered:
            try:
                return await self._pass_on(request, answered, treat)
            except ConnectionError:  # the client has left
                return web.Response()

    async def _pass_on(
        self, request: web.Request, answered: aiohttp.ClientResponse, treat: Treat
    ) -> web.StreamResponse:
        told = {name: value for name, value in answered.headers.items() if name.lower() not in _NOT_PASSED}
        if request.method == "HEAD":
            return web.Response(status=answered.status, headers=told)
        content = await answered.read()
        if treat.ignores_range:
            told = {name: value for name, value in told.items() if name.lower() != "content-range"}
        if treat.gives_bytes is not None:
            content = content[: treat.gives_bytes]
            told = _with_range(told, len(content), admits_it=treat.admits_it)
        response = web.StreamResponse(status=200 if treat.ignores_range else answered.status, headers=told)
        response.content_length = len(content)
        await response.prepare(request)
        cut = treat.cuts_after if treat.cuts_after is not None else treat.holds_after
        await response.write(content[:cut])
        if treat.holds_after is not None:
            self.holding.set()
            await self.let_go.wait()
            await response.write(content[cut:])
        if treat.cuts_after is not None:
            assert request.transport is not None
            request.transport.abort()
        return response


def _with_range(told: dict[str, str], count: int, *, admits_it: bool) -> dict[str, str]:
    """The headers of an answer of fewer bytes, which are told in them or not."""
    changed = {name: value for name, value in told.items() if name.lower() != "content-length"}
    for name in changed:
        if admits_it and name.lower() == "content-range":
            bounds, _, total = changed[name].removeprefix("bytes ").partition("/")
            start = int(bounds.split("-")[0])
            changed[name] = f"bytes {start}-{start + count - 1}/{total}"
    return changed
