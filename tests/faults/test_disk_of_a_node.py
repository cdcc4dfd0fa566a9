"""A disk that is full, broken or read-only under a running node: answers go on, and what is lifted is over.

The faults come and go while the node runs: strace is attached to its process for the time of the fault, or room is taken.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.e2e.program import Node, serving
from tests.fakes.upstream import FakeUpstream
from tests.faults.marked import Got, ask, mark
from tests.soak.__main__ import adds_up

SETTINGS = """
[upstreams.fake]
url = "{url}"
[[tiers]]
store = "memory"
limit = "1 MiB"
[[tiers]]
store = "disk"
limit = "16 MiB"
"""
KNOWN = 10


async def stats(node: Node) -> Any:
    async with (
        aiohttp.ClientSession(headers=node.admin_headers) as session,
        session.get(f"{node.url}/-/stats") as response,
    ):
        return await response.json()


async def asked(node: Node, names: list[str]) -> list[Got]:
    """Answers to these, all of which must be right; nothing may be wrong with the counts either."""
    got = [await ask(node.url, mark(name), stream=i % 2 == 0) for i, name in enumerate(names)]
    assert [wrong for one in got for wrong in one.wrongs] == []
    assert [one for one in got if not one.is_answer] == []
    assert adds_up(await stats(node)) == []
    return got


async def writes_again(node: Node, name: str) -> None:
    """A new record reaches the disk, some time after the fault was lifted."""
    before = (await stats(node))["tiers"][1]["writes"]
    async with asyncio.timeout(30):
        for turn in range(10**6):
            await asked(node, [f"{name} {turn}"])
            if (await stats(node))["tiers"][1]["writes"] > before:
                return
            await asyncio.sleep(0.1)  # a broken disk is tried again after a while only


@asynccontextmanager
async def failing(node: Node, error: str, *calls: str) -> AsyncIterator[None]:
    """While the block runs, these system calls of the node on its data file fail."""
    strace = shutil.which("strace")
    assert strace is not None, "strace is missing, which the fault tests need: tools/apt strace"
    traced = await asyncio.create_subprocess_exec(
        strace, "-f", "-p", str(node.process.pid), "-P", str(node.home / "answers" / "data.mdb"),
        "-o", "/dev/null", "-e", f"trace={','.join(calls)}", *(w for c in calls for w in ("-e", f"inject={c}:error={error}")),
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert traced.stderr is not None
    line = await asyncio.wait_for(traced.stderr.readline(), 20)
    assert b"attached" in line, f"strace can't trace the node: {line.decode()}"
    try:
        yield
    finally:
        traced.send_signal(signal.SIGINT)
        await asyncio.wait_for(traced.communicate(), 20)


@pytest.mark.parametrize("error", ["ENOSPC", "EIO", "EROFS"])
async def test_while_the_disk_fails_the_node_answers_and_keeps_in_memory_and_then_writes_again(tmp_path, error):
    async with FakeUpstream() as upstream, serving(tmp_path, SETTINGS.format(url=upstream.url)) as node:
        await asked(node, [f"before {i}" for i in range(KNOWN)])
        await node.written(KNOWN)
        async with failing(node, error, "pwrite64", "writev", "pwritev", "fdatasync", "fsync"):
            before = await asked(node, [f"before {i}" for i in range(KNOWN)])
            first = await asked(node, [f"during {i}" for i in range(KNOWN)])
            second = await asked(node, [f"during {i}" for i in range(KNOWN)])
            counted = (await stats(node))["tiers"][1]
        await writes_again(node, "after")

    assert all(got.is_hit for got in [*before, *second])
    assert not any(got.is_hit for got in first)
    assert counted["writes"] == KNOWN


@contextmanager
def small_disk(at: Path, size: str) -> Iterator[Path]:
    at.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(at)], capture_output=True, text=True
    )
    assert done.returncode == 0, f"this test mounts a small disk, which needs root: {done.stderr}"
    try:
        yield at
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)


def fill(disk: Path) -> None:
    with (disk / "hog").open("ab", buffering=0) as hog, pytest.raises(OSError, match="No space left"):
        while True:
            hog.write(bytes(4096))


async def purged(node: Node, what: dict[str, Any]) -> int:
    async with (
        aiohttp.ClientSession(headers=node.admin_headers) as session,
        session.post(f"{node.url}/-/cache/purge", json=what) as response,
    ):
        return response.status


async def test_on_a_disk_that_fills_up_and_empties_again_every_answer_is_right(tmp_path):
    """The node's own files fill it, and another's: a hole in the data file that can't be filled would be SIGBUS."""
    with small_disk(tmp_path / "disk", "6m") as disk:
        async with FakeUpstream() as upstream, serving(disk, SETTINGS.format(url=upstream.url)) as node:
            await asked(node, [f"before {i}" for i in range(KNOWN)])
            await node.written(KNOWN)
            fill(disk)
            during = await asked(node, [f"during {i}" for i in range(60)])
            counted = (await stats(node))["tiers"][1]
            again = await asked(node, [f"before {i}" for i in range(KNOWN)])
            (disk / "hog").unlink()
            await writes_again(node, "after")
            code = await node.stop()

    assert len(during) == 60
    assert all(got.is_hit for got in again)
    assert counted["write_errors"] > 0
    assert code == 128 + signal.SIGTERM


@pytest.mark.parametrize("purge", [{"everything": True}, {"model": "m"}], ids=str)
async def test_purges_on_a_full_disk_last_though_the_node_is_killed(tmp_path, purge):
    names = [f"known {i}" for i in range(KNOWN)]
    with small_disk(tmp_path / "disk", "6m") as disk:
        async with FakeUpstream() as upstream:
            settings = SETTINGS.format(url=upstream.url)
            async with serving(disk, settings) as node:
                await asked(node, names)
                await node.written(KNOWN)
                fill(disk)
                told = [await purged(node, one) for one in (purge, {"tag": "other"}, purge)]
                fill(disk)
                await node.stop(signal.SIGKILL)
            async with serving(disk, settings) as node:
                after = await asked(node, names)

    assert told == [200, 200, 200]
    assert not any(got.is_hit for got in after)


async def test_a_node_whose_folder_is_taken_away_goes_on_answering(tmp_path):
    async with FakeUpstream() as upstream, serving(tmp_path, SETTINGS.format(url=upstream.url)) as node:
        await asked(node, [f"before {i}" for i in range(KNOWN)])
        await node.written(KNOWN)
        shutil.rmtree(tmp_path / "answers")
        during = await asked(node, [f"{when} {i}" for when in ("before", "during") for i in range(KNOWN)])
        code = await node.stop()

    assert sum(got.is_hit for got in during) == KNOWN
    assert code == 128 + signal.SIGTERM
    assert re.fullmatch(r"<<before-0>>", during[0].mark)
