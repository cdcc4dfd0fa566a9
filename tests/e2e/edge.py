"""`foretold edge dev` as users run it, and its KV by the paths of Cloudflare's API.  Nothing here imports the program."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.e2e.program import command, environment

START_S = 180


class LocalEdge:
    def __init__(self, process: asyncio.subprocess.Process, told: Mapping[str, Any]):
        self.process = process
        self.url: str = told["url"]
        self.kv: Mapping[str, str] = told["kv"]
        self.said: list[str] = []
        self._news = asyncio.Condition()
        self._reading = asyncio.create_task(self._read())

    async def post(
        self, path: str, body: Any, headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        async with (
            aiohttp.ClientSession() as session,
            session.post(self.url + path, json=body, headers=headers) as response,
        ):
            return response.status, {n.lower(): v for n, v in response.headers.items()}, await response.read()

    async def get(self, path: str) -> bytes:
        async with aiohttp.ClientSession() as session, session.get(self.url + path) as response:
            return await response.read()

    async def says(self, text: str) -> None:
        """Returns once it has said so on stderr."""
        async with self._news:
            await asyncio.wait_for(self._news.wait_for(lambda: any(text in line for line in self.said)), 30)

    @property
    def tier(self) -> str:
        """The settings of a node's tier in its KV."""
        return (
            f'[[tiers]]\nstore = "cloudflare_kv"\nurl = "{self.kv["url"]}"\naccount_id = "{self.kv["account_id"]}"\n'
            f'namespace_id = "{self.kv["namespace_id"]}"\ntoken = {{ file = "{self.kv["token_file"]}" }}\n'
            'read_purges = "1s"\ndeadline = "5s"\n'
        )

    async def asked(self, method: str, path: str, body: Any = None) -> Any:
        token = await asyncio.to_thread(Path(self.kv["token_file"]).read_text)
        base = f"{self.kv['url']}/accounts/{self.kv['account_id']}/storage/kv/namespaces/{self.kv['namespace_id']}"
        headers = {"authorization": f"Bearer {token.strip()}"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.request(method, base + path, json=body) as response,
        ):
            return await response.json()

    async def records(self) -> list[str]:
        """The names of the records in KV."""
        told = await self.asked("GET", "/keys?prefix=foretold/1/")
        return [row["name"] for row in told["result"] if len(row["name"].split("/")) == 4 and len(row["name"]) > 130]

    async def generations(self) -> dict[str, str]:
        """What KV says of the generations, by name."""
        told = await self.asked("GET", "/keys?prefix=foretold/1/generation/")
        names = [row["name"] for row in told["result"]]
        return (await self.asked("POST", "/bulk/get", {"keys": names}))["result"]["values"]  # type: ignore[no-any-return]

    async def empty(self) -> None:
        """Takes all records out of KV."""
        await self.asked("POST", "/bulk/delete", await self.records())
        assert await self.records() == []

    async def stop(self, number: int = signal.SIGINT) -> int:
        if self.process.returncode is None:
            self.process.send_signal(number)
        code = await asyncio.wait_for(self.process.wait(), 30)
        await self._reading
        return code

    async def _read(self) -> None:
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            async with self._news:
                self.said.append(line.decode().rstrip("\n"))
                self._news.notify_all()


@asynccontextmanager
async def edge_dev(home: Path, node_url: str, *arguments: str) -> AsyncIterator[LocalEdge]:
    """The edge in front of a node with this data folder."""
    process = await asyncio.create_subprocess_exec(
        *command(),
        *("edge", "dev", "--url", node_url, "--port", "0", "--kv-port", "0", "--json"),
        *arguments,
        env=environment(home),
        cwd=home,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    edge = None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), START_S)
        assert line, (await process.stderr.read()).decode()
        edge = LocalEdge(process, json.loads(line))
        yield edge
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 30)
        except TimeoutError:
            process.kill()
            await process.wait()
        if edge is not None:
            await edge.stop()
