"""A writer killed at any system call that writes: nothing acknowledged is lost, nothing is wrong."""

from __future__ import annotations

import asyncio
import random
import re
import signal
from pathlib import Path

import pytest

from tests.faults.sequence import STEPS, held_in, wrongs
from tests.faults.strace import traced, write_calls

AT_ONCE = 2
# Folders of bodies are made by chance, so a run may need some calls less than the one that was counted.
MAY_NOT_COME = 8


async def killed_at(call: str, number: int, folder: Path, *, surely: bool) -> list[str]:
    """What is wrong after a kill at the n-th such call of a thread."""
    code, out = await traced("-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={number}", folder=folder)
    acknowledged = len(re.findall(rb"^done \d+$", out, re.M))
    held, orphans = await held_in(folder)
    found = wrongs(held, at_least=acknowledged, at_most=min(acknowledged + 1, len(STEPS)))
    if orphans:
        found.append(f"{len(orphans)} files that no entry names were left")
    if surely and code not in (-signal.SIGKILL, 128 + signal.SIGKILL):
        found.append(f"it ended with {code} and was not killed")
    return [f"{call} {number}: {line}" for line in found]


async def wrongs_of(points: list[tuple[str, int, bool]], folder: Path) -> list[str]:
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(call: str, number: int, surely: bool) -> list[str]:
        async with turns:
            return await killed_at(call, number, folder / f"{call}-{number}", surely=surely)

    return [line for lines in await asyncio.gather(*(one(*point) for point in points)) for line in lines]


async def kill_points(folder: Path) -> list[tuple[str, int, bool]]:
    """A system call, which of them, and whether it comes for sure."""
    calls = await write_calls(folder / "counted", folder / "log")
    return [
        (name, number, number <= count - MAY_NOT_COME)
        for name, count in calls.items()
        for number in range(1, count + 1)
    ]


async def test_a_writer_killed_at_a_system_call_loses_nothing_and_leaves_nothing_wrong(tmp_path):
    points = await kill_points(tmp_path)
    chosen = random.Random(1).sample(points, 48)

    assert len(points) >= 48
    assert await wrongs_of(chosen, tmp_path) == []


@pytest.mark.slow
async def test_a_writer_killed_at_any_system_call_loses_nothing_and_leaves_nothing_wrong(tmp_path):
    points = await kill_points(tmp_path)

    assert await wrongs_of(points, tmp_path) == []
