"""What a running node holds, seen from outside."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Any

import aiohttp
import lmdb

from tests.e2e.program import Node
from tests.soak.samples import Sample

SETTLES_S = 20.0


async def sample_at_rest(node: Node, requests: int) -> tuple[Sample, dict[str, Any]]:
    """What it holds once nothing of it changes any more, and its counts.  Raises AssertionError if that never comes."""
    before: tuple[Any, ...] = ()
    same = 0
    async with asyncio.timeout(SETTLES_S), aiohttp.ClientSession(headers=node.admin_headers) as session:
        while same < 4:
            async with session.get(f"{node.url}/-/stats") as response:
                told = await response.json()
            pid = node.process.pid
            now = (_files(pid), told["tasks"], told["flights"], _readers(node.home / "answers", pid))
            same = same + 1 if now == before else 0
            before = now
            await asyncio.sleep(0.25)
    files, tasks, flights, readers = before
    assert flights == 0, f"{flights} flights are in the air though nobody asks"
    return Sample(requests, _anonymous_bytes(pid), files, tasks, readers), told


def _files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def _anonymous_bytes(pid: int) -> int:
    found = re.search(r"^RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.M)
    assert found is not None
    return int(found.group(1)) * 1024


def _readers(folder: Path, pid: int) -> int:
    """Slots that the node has in the table of readers, whether they hold a snapshot or not."""
    with lmdb.open(str(folder), readonly=True, create=False, max_dbs=8) as env:
        return sum(line.split()[0] == str(pid) for line in env.readers().splitlines()[1:] if line.split())
