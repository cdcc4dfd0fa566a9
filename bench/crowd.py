"""Many at once: how long a herd waits, when a late caller gets its first byte, and a mixed load at a fixed rate.

python bench/crowd.py [--rate N] [--seconds S]
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import uvloop
from cases import CHAT, CREDENTIAL, NEW, NEW_EVENTS, NUMBER
from servers import LOAD_CORE, Mock, Node

HERD = 200
UPSTREAM_MS = 300
PAUSE_MS = 50
CONNECTIONS = 64
KEYS, ZIPF, NEW_SHARE = 5000, 1.1, 0.05

_numbers = itertools.count(time.time_ns() // 1000, 1000)


class Wrong(Exception):
    """What was measured is not what should have been."""


class Caller:
    """One connection, one question at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self._reader, self._writer = reader, writer

    @staticmethod
    async def of(url: str) -> Caller:
        parts = urlsplit(url)
        return Caller(*await asyncio.open_connection(parts.hostname, parts.port))

    async def ask(self, body: str) -> tuple[float, bytes]:
        """When the first byte came, on the monotonic clock, and the body."""
        content = body.encode()
        head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {CREDENTIAL}\r\n"
        self._writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        told = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        first_s = time.monotonic()
        if not told.startswith(b"http/1.1 200 "):
            raise Wrong(told.decode())
        if b"\r\ncontent-length:" in told:
            length = int(told.partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0])
            return first_s, await self._reader.readexactly(length)
        chunks = []
        while size := int((await self._reader.readline()).partition(b";")[0], 16):
            chunks.append(await self._reader.readexactly(size))
            await self._reader.readexactly(2)
        await self._reader.readexactly(2)
        return first_s, b"".join(chunks)

    def close(self) -> None:
        self._writer.close()


@asynccontextmanager
async def callers(url: str, count: int) -> AsyncIterator[list[Caller]]:
    connected = [await Caller.of(url) for _ in range(count)]
    try:
        yield connected
    finally:
        for caller in connected:
            caller.close()


async def herd(node: Node, mock: Mock, body: str) -> float:
    """Milliseconds until all of a herd have the whole answer of one upstream call."""
    calls, asked = mock.calls(), body.replace(NUMBER, f"{next(_numbers):016d}")
    async with callers(node.url, HERD) as connected:
        began_s = time.monotonic()
        answers = await asyncio.gather(*(caller.ask(asked) for caller in connected))
        took_ms = (time.monotonic() - began_s) * 1000
    if mock.calls() - calls != 1 or len({content for _, content in answers}) != 1:
        raise Wrong(f"{mock.calls() - calls} upstream calls, {len({c for _, c in answers})} different answers")
    return took_ms


async def late(node: Node, mock: Mock) -> float:
    """Milliseconds until a caller who comes in the middle of a stream has its first byte."""
    calls, asked = mock.calls(), NEW_EVENTS.replace(NUMBER, f"{next(_numbers):016d}")
    async with callers(node.url, 2) as (first, second):
        running = asyncio.create_task(first.ask(asked))
        await asyncio.sleep((UPSTREAM_MS + 8 * PAUSE_MS) / 1000)
        began_s = time.monotonic()
        first_s, content = await second.ask(asked)
        if (await running)[1] != content or mock.calls() - calls != 1:
            raise Wrong("the late caller got another answer, or one of its own")
    return (first_s - began_s) * 1000


async def mixed(node: Node, *, rate: int, seconds: float) -> list[float]:
    """Milliseconds from when each request was due, whenever it could be sent; sorted."""
    chance = random.Random(1)
    weights = [1 / rank**ZIPF for rank in range(1, KEYS + 1)]
    keys = chance.choices(range(KEYS), weights, k=int(rate * seconds))
    took: list[float] = []
    due: asyncio.Queue[tuple[float, str]] = asyncio.Queue()

    async def serve(caller: Caller) -> None:
        while True:
            due_s, body = await due.get()
            await caller.ask(body)
            took.append((time.monotonic() - due_s) * 1000)
            due.task_done()

    async with callers(node.url, CONNECTIONS) as connected:
        serving = [asyncio.create_task(serve(caller)) for caller in connected]
        began_s = time.monotonic()
        for at, key in enumerate(keys):
            due_s = began_s + at / rate
            if (ahead_s := due_s - time.monotonic()) > 0:
                await asyncio.sleep(ahead_s)
            number = next(_numbers) if chance.random() < NEW_SHARE else key
            due.put_nowait((due_s, NEW.replace(NUMBER, f"{number:016d}")))
        await due.join()
        for task in serving:
            task.cancel()
    return sorted(took)


@asynccontextmanager
async def standing(*, workers: int, delay_ms: int = 0, pause_ms: int = 0) -> AsyncIterator[tuple[Node, Mock]]:
    """A node before a mock."""
    with tempfile.TemporaryDirectory(prefix="foretold-bench-") as name:
        mock = Mock(Path(name), delay_ms=delay_ms, pause_ms=pause_ms)
        node = Node("node", mock.url, Path(name), workers=workers)
        try:
            yield node, mock
        finally:
            node.stop()
            mock.stop()


async def measured(workers: int, *, rate: int, seconds: float) -> None:
    print(f"\n{workers} process{'es' if workers > 1 else ''}")
    async with standing(workers=workers, delay_ms=UPSTREAM_MS, pause_ms=PAUSE_MS) as (node, mock):
        await told(f"herd of {HERD}, whole: all have it after", lambda: herd(node, mock, NEW))
        await told(f"herd of {HERD}, streamed over 1 s: after", lambda: herd(node, mock, NEW_EVENTS))
        await told("a late caller's first byte after", lambda: late(node, mock))
    async with standing(workers=workers) as (node, _):
        await mixed(node, rate=rate, seconds=2)
        took = await mixed(node, rate=rate, seconds=seconds)
    places = {p: took[min(len(took) - 1, int(len(took) * p / 100))] for p in (50, 99, 99.9)}
    said = ", ".join(f"p{p:g} {ms:.2f} ms" for p, ms in places.items())
    print(f"  mixed load, {rate} due a second, {NEW_SHARE:.0%} new: {said}")


async def told(what: str, measure: Callable[[], Awaitable[float]]) -> None:
    took = [await measure() for _ in range(5)]
    print(f"  {what} {statistics.median(took):.1f} ms ({min(took):.1f} to {max(took):.1f})")


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--rate", type=int, default=1000, help="requests due a second in the mixed load")
    asked.add_argument("--seconds", type=float, default=10, help="how long the mixed load lasts")
    args = asked.parse_args()
    os.sched_setaffinity(0, {LOAD_CORE})
    try:
        for workers in (1, 2):
            uvloop.run(measured(workers, rate=args.rate, seconds=args.seconds))
    except (Wrong, RuntimeError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
