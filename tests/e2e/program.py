"""The program as users run it: a process, its files, its exit code.  Nothing here imports it.

FORETOLD_PROGRAM names an installed one; by default it runs from the source tree.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

START_S = 120


def command() -> list[str]:
    installed = os.environ.get("FORETOLD_PROGRAM")
    return [installed] if installed else [sys.executable, "-m", "foretold"]


def environment(home: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Of a process whose data folder is `home`; weights are shared, a download of 93 MB is no test of a hit."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "HOME", "FORETOLD_CACHE") if name in os.environ}
    if "FORETOLD_PROGRAM" not in os.environ:
        kept["PYTHONPATH"] = str(Path(__file__).parents[2] / "src")
    return {**kept, "FORETOLD_HOME": str(home), **(more or {})}


@dataclass
class Finished:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


async def run(*arguments: str, home: Path, sent: str = "", cwd: Path | None = None, **more: str) -> Finished:
    """A command, run to its end."""
    process = await asyncio.create_subprocess_exec(
        *command(),
        *arguments,
        env=environment(home, more),
        cwd=cwd or home,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(sent.encode()), START_S)
    assert process.returncode is not None
    return Finished(process.returncode, out.decode(), err.decode())


class Node:
    """A running `foretold serve`."""

    def __init__(self, process: asyncio.subprocess.Process, url: str, home: Path, workers: Sequence[int] = ()):
        self.process = process
        self.url = url
        self.home = home
        self.workers = tuple(workers)

    @property
    def admin_headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {(self.home / 'admin-token').read_text().strip()}"}

    async def post(
        self, path: str, body: Any, headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        async with (
            aiohttp.ClientSession() as session,
            session.post(self.url + path, json=body, headers=headers) as response,
        ):
            return response.status, {n.lower(): v for n, v in response.headers.items()}, await response.read()

    async def stats(self) -> Any:
        async with (
            aiohttp.ClientSession(headers=self.admin_headers) as session,
            session.get(f"{self.url}/-/stats") as response,
        ):
            return await response.json()

    async def written(self, count: int) -> None:
        """Returns once so many records are safe on disk."""
        async with aiohttp.ClientSession(headers=self.admin_headers) as session:
            for _ in range(1000):
                async with session.get(f"{self.url}/-/stats") as response:
                    told = await response.json()
                if told["tiers"][1]["writes"] >= count:
                    return
        raise AssertionError(f"{count} records were not written: {told['tiers'][1]}")

    async def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.returncode is None:
            self.process.send_signal(number)
        return await asyncio.wait_for(self.process.wait(), 30)


@asynccontextmanager
async def serving(home: Path, settings: str | None = None, *arguments: str) -> AsyncIterator[Node]:
    """A node as a process of its own, killed if it doesn't stop."""
    given = []
    if settings is not None:
        file = home / "given.toml"
        file.write_text(settings)
        given = ["--config", str(file)]
    process = await asyncio.create_subprocess_exec(
        *command(),
        "serve",
        "--port",
        "0",
        "--json",
        *given,
        *arguments,
        env=environment(home),
        cwd=home,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), START_S)
        assert line, "the node did not start"
        told = json.loads(line)
        yield Node(process, told["url"], home, told.get("workers", ()))
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 30)
        except TimeoutError:
            process.kill()
            await process.wait()
