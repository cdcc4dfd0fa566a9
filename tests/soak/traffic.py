"""Mixed traffic: questions of very different fame, asked well and badly, and the node changed under way."""

from __future__ import annotations

import asyncio
import bisect
import itertools
import random
from collections import Counter
from typing import Any

import aiohttp

from tests.asking import chat_body
from tests.e2e.program import Node
from tests.faults.marked import BOUND_S, connect, mark, question, read, read_to_end, reset

QUESTIONS = 3000
CALLERS = 24
# By count and not by time: a reload empties what is remembered of queries, so that how much memory is ever in use would
# else depend on how fast the machine is just then, and creep up with each busier moment.
PURGE_EVERY, RELOAD_EVERY = 300, 1000


class Traffic:
    """`wrongs` are what callers saw that they never may; `ended` counts how questions ended."""

    def __init__(self, node: Node, seed: int, *, settings: tuple[str, str]):
        self.wrongs: list[str] = []
        self.ended: Counter[str] = Counter()
        self.asked = 0
        self._node = node
        self._chance = random.Random(seed)
        self._fame = list(itertools.accumulate(1 / (rank + 1) for rank in range(QUESTIONS)))
        self._fresh = itertools.count()
        self._settings = itertools.cycle(settings)
        self._left = 0

    async def lap(self, count: int, *, rate: float) -> None:
        """Asks so many questions, at most `rate` a second; returns when all have ended."""
        self._left = count
        async with aiohttp.ClientSession(auto_decompress=False) as session:
            await asyncio.gather(*(self._caller(session, CALLERS / rate) for _ in range(CALLERS)))

    async def _caller(self, session: aiohttp.ClientSession, each_s: float) -> None:
        """One question after the other, each at its time."""
        loop = asyncio.get_running_loop()
        while self._left > 0:
            next_s = loop.time() + each_s * self._chance.uniform(0.5, 1.5)
            self._left -= 1
            self.asked += 1
            if self.asked % PURGE_EVERY == 0:
                await self._purge(session)
            if self.asked % RELOAD_EVERY == 0:
                await self._reload(session)
            async with asyncio.timeout(BOUND_S):
                self.ended[await self._ask(session)] += 1
            await asyncio.sleep(max(0.0, next_s - loop.time()))

    async def _ask(self, session: aiohttp.ClientSession) -> str:
        chance, stream = self._chance, self._chance.random() < 0.5
        fate = chance.random()
        name = mark(f"fresh {next(self._fresh)}" if fate < 0.15 else f"known {self._known()}")
        if fate < 0.55:
            return await self._kept_connection(session, name, stream)
        if fate < 0.8:
            return await self._own_connection(name, stream=stream, spaces=chance.randrange(2000))
        if fate < 0.9:
            return await self._leaves(name, stream)
        return await self._own_connection(name, stream=stream, slowly=True)

    def _known(self) -> int:
        return bisect.bisect(self._fame, self._chance.random() * self._fame[-1])

    async def _kept_connection(self, session: aiohttp.ClientSession, name: str, stream: bool) -> str:
        asked = chat_body(name) | ({"stream": True} if stream else {})
        try:
            async with session.post(f"{self._node.url}/v1/chat/completions", json=asked) as response:
                head = f"HTTP/1.1 {response.status} X\r\n" + "".join(
                    f"{n}: {v}\r\n" for n, v in response.headers.items() if n.lower() != "transfer-encoding"
                )
                body = await response.read()
        except aiohttp.ClientError:
            return "cut"
        length = "" if "Content-Length" in response.headers else f"content-length: {len(body)}\r\n"
        return self._noted(name, f"{head}{length}\r\n".encode("utf-8", "surrogateescape") + body)

    async def _own_connection(self, name: str, *, slowly: bool = False, **asked: Any) -> str:
        reader, writer = await connect(self._node.url)
        try:
            writer.write(question(name, **asked))
            if slowly:
                with_pauses = bytearray()
                while len(with_pauses) < 2000 and (piece := await reader.read(200)):
                    with_pauses += piece
                    await asyncio.sleep(0.01)
                return self._noted(name, bytes(with_pauses) + await read_to_end(reader))
            return self._noted(name, await read_to_end(reader))
        except ConnectionError:
            return "cut"
        finally:
            writer.transport.abort()

    async def _leaves(self, name: str, stream: bool) -> str:
        _, writer = await connect(self._node.url)
        sent = question(name, stream=stream)
        writer.write(sent[: self._chance.choice([0, 30, len(sent) - 3, len(sent), len(sent), len(sent)])])
        await asyncio.sleep(self._chance.random() / 50)
        self._chance.choice([reset, asyncio.StreamWriter.close])(writer)
        return "left"

    def _noted(self, name: str, came: bytes) -> str:
        got = read(name, came)
        self.wrongs += got.wrongs
        return "hit" if got.is_hit else "answer" if got.is_answer else "cut" if not got.is_whole else "other"

    async def _purge(self, session: aiohttp.ClientSession) -> None:
        kinds = [{"tag": "t"}, {"revision": "none"}, {"key": "0" * 64}] * 4 + [{"model": "m"}, {"everything": True}]
        await self._told(session, "/-/cache/purge", self._chance.choice(kinds))

    async def _reload(self, session: aiohttp.ClientSession) -> None:
        (self._node.home / "given.toml").write_text(next(self._settings))
        await self._told(session, "/-/config/reload", {})

    async def _told(self, session: aiohttp.ClientSession, path: str, asked: dict[str, Any]) -> None:
        async with session.post(self._node.url + path, json=asked, headers=self._node.admin_headers) as response:
            if response.status != 200:
                self.wrongs.append(f"{path} {asked} gave {response.status}: {(await response.text())[:200]}")
            self.ended[path] += 1
