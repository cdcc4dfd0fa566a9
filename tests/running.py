"""A node on a real socket in the test's own event loop, and a client for it."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

from foretold.assemble import Assembled, assemble, wall_ms
from foretold.config import Config, load
from foretold.datafolder import DataFolder
from foretold.flights.aftermath import monotonic_ms
from foretold.live import Live
from foretold.models.configured import Weights
from foretold.models.process import PROGRAM
from foretold.models.promoting import Brings
from foretold.server.listening import bind
from foretold.server.serve import server_for
from tests.asking import chat_body


@dataclass
class Answered:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def cache_status(self) -> str:
        return self.headers.get("cache-status", "")

    @property
    def is_hit(self) -> bool:
        return "; hit" in self.cache_status

    @property
    def text(self) -> str:
        """What a chat answer says, whole or streamed."""
        if self.headers["content-type"].startswith("text/event-stream"):
            told = [line[6:] for line in self.body.decode().split("\n") if line.startswith("data: {")]
            return "".join(c["delta"].get("content") or "" for line in told for c in json.loads(line)["choices"])
        text: str = self.json["choices"][0]["message"]["content"]
        return text


class Client:
    def __init__(self, url: str, assembled: Assembled, live: Live, written: list[str]):
        self.url = url
        self.live = live
        self.admin = live.app.admin
        self.written = written
        self.assembled = assembled
        self.node = assembled.node
        self._session = aiohttp.ClientSession(auto_decompress=False)

    async def rest(self) -> None:
        """Closes this client's own connections; it makes new ones when it asks again."""
        await self._session.close()
        self._session = aiohttp.ClientSession(auto_decompress=False)

    async def send(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answered:
        """A request whose path goes out as it is."""
        sent = {"content-type": "application/json", **(headers or {})}
        data = None if body is None else io.BytesIO(body)
        async with self._session.request(
            method, URL(self.url + path, encoded=True), data=data, headers=sent
        ) as response:
            told = {name.lower(): value for name, value in response.headers.items()}
            return Answered(response.status, told, await response.read())

    async def post(self, path: str, asked: Any, headers: Mapping[str, str] | None = None) -> Answered:
        return await self.send("POST", path, json.dumps(asked).encode(), headers)

    async def chat(self, text: str, headers: Mapping[str, str] | None = None, **members: Any) -> Answered:
        return await self.post("/v1/chat/completions", chat_body(text, **members), headers)

    async def begin_chat(self, text: str, **members: Any) -> tuple[aiohttp.StreamReader, bytes]:
        """A streamed answer whose first bytes are here, and what is still to come of it."""
        response = await self._session.post(f"{self.url}/v1/chat/completions", json=chat_body(text, **members))
        return response.content, await response.content.readany()

    @property
    def admin_headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.assembled.admin_token}"}

    async def purge(self, **asked: Any) -> Answered:
        return await self.post("/-/cache/purge", asked, self.admin_headers)

    async def reload(self, settings: str) -> Answered:
        """Writes other settings down, and lets the node read them."""
        self.written[0] = settings
        return await self.post("/-/config/reload", {}, self.admin_headers)

    async def stats(self) -> Any:
        return (await self.send("GET", "/-/stats", headers=self.admin_headers)).json

    async def close(self) -> None:
        await self._session.close()


def in_front_of(url: str, more: str = "") -> str:
    """Settings of a node whose only upstream is this one."""
    return f'[upstreams.fake]\nurl = "{url}"\n{more}'


@asynccontextmanager
async def running(
    settings: str,
    folder: Path,
    *,
    now_ms: Callable[[], int] = wall_ms,
    monotonic_ms: Callable[[], int] = monotonic_ms,
    shares_flights: bool = False,
    weights: Mapping[str, Weights] | None = None,
    engine: Sequence[str] = PROGRAM,
    brings: Callable[[Callable[[], Config]], Brings] | None = None,
) -> AsyncIterator[Client]:
    """A node with these settings and this data folder, until the block ends.

    `brings` is made of what reads the settings as they are then written.
    """
    config = load(settings)
    sock = bind("127.0.0.1", 0)
    port = sock.getsockname()[1]
    workers = 2 if shares_flights else 1
    server = dataclasses.replace(config.server, port=port, workers=workers)
    config = dataclasses.replace(config, server=server)
    assembled = assemble(
        config,
        DataFolder(folder),
        weights=weights or {},
        run_folder=folder / "run",
        engine=engine,
        now_ms=now_ms,
        monotonic_ms=monotonic_ms,
    )
    assert assembled.models is not None
    pool = assembled.models.pool
    await pool.begin()
    await assembled.node.open()
    url = f"http://127.0.0.1:{port}"
    written = [settings]

    def read() -> Config:
        config = load(written[0])
        return dataclasses.replace(config, server=dataclasses.replace(config.server, port=port))

    live = Live(
        config,
        assembled,
        base_url=f"{url}/v1",
        is_ready=lambda: True,
        read=read,
        brings=brings(read) if brings is not None else None,
    )
    server = server_for(live.app, config.server)
    serving = asyncio.create_task(server.serve(sockets=[sock]))
    client = Client(url, assembled, live, written)
    try:
        yield client
    finally:
        await client.close()
        server.should_exit = True
        await serving
        await live.close()
        await assembled.node.close()
        await pool.stop()
        sock.close()
