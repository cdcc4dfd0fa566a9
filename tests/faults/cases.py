"""Runs cases through tests.faults.store_program."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


class Cases:
    def __init__(self, process: asyncio.subprocess.Process):
        self._process = process

    async def run(self, do: str, folder: Path, count: int, **more: Any) -> Any:
        """How a case ended, in a process of its own."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = json.dumps({"do": do, "folder": str(folder), "count": count, **more})
        self._process.stdin.write(line.encode() + b"\n")
        told = await asyncio.wait_for(self._process.stdout.readline(), 60)
        assert told, "the program that runs cases has ended"
        return json.loads(told)


@asynccontextmanager
async def running_cases(**environment: str) -> AsyncIterator[Cases]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.faults.store_program",
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", **environment},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield Cases(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await asyncio.wait_for(process.wait(), 60)
