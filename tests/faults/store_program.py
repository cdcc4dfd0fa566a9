"""Takes cases from stdin, a JSON line each, and runs each in a fork of its own; a line each tells how it ended.

A process started anew for each of some hundred cases would spend its time importing.  `ended` is the exit code, below
0 the signal that killed it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from foretold.contract.record import Record
from foretold.stores.disk import DiskStore
from foretold.stores.memory import MemoryStore
from foretold.tiers.keeping import Keeping
from foretold.tiers.order import Tiers
from foretold.tiers.tier import Tier
from tests.fakes.records import NAMESPACE, SECRET, record

LIMIT_BYTES = 12 * 2**20
HANGS_S = 30


def now_ms() -> int:
    return time.time_ns() // 10**6


def key_of(number: int) -> str:
    return hashlib.sha256(b"%d" % number).hexdigest()


def record_of(number: int) -> Record:
    """The record of a number: a body that no other has, small, middling, or large enough for a file."""
    chance = random.Random(number)
    size = chance.choice((100, 400, 900, 1900, 3000, 9000, 30_000, 100_000))
    return record(
        key=key_of(number),
        body=b"%d:" % number + chance.randbytes(size),
        made_ms=now_ms(),
        asked_ms=now_ms(),
        content_type="application/octet-stream",
        headers=(),
    )


class World:
    """Tiers over one folder, with a memory so small that every look-up goes to the disk."""

    def __init__(self, folder: Path, **options: Any):
        self.told: list[str] = []
        self.disk = DiskStore(folder, LIMIT_BYTES, now_ms=now_ms, tell=self.told.append, **options)
        self.tier = Tier(self.disk, deadline_s=5)
        self.tiers = Tiers(MemoryStore(0, largest_bytes=0, now_ms=now_ms), [self.tier], secret=SECRET, now_ms=now_ms)
        self.keeping = Keeping(self.tiers, secret=SECRET, largest_bytes=2**23, now_ms=now_ms)

    async def keep(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            assert self.keeping.keep(record_of(number)) is None
        await self.keeping.flush()

    def look(self, numbers: range) -> tuple[int, int]:
        """How many are there, and how many are there wrong."""
        found = wrong = 0
        for number in numbers:
            hit = self.tiers.look_near(key_of(number), NAMESPACE)
            if hit is not None:
                found += 1
                wrong += hit.held.body != record_of(number).body or hit.held.key != key_of(number)
        return found, wrong

    async def close(self) -> None:
        await self.keeping.close()
        await self.tiers.close()


async def make(folder: Path, count: int) -> dict[str, Any]:
    """A store that has lived: replaced, deleted, with free pages."""
    world = World(folder)
    for start in range(0, count, 10):
        await world.keep(range(start, start + 10))
    await world.keep(range(0, count, 3))
    for number in range(count, count + 20):
        await world.keep(range(number, number + 1))
        await world.keeping.forget(key_of(number))
    found, wrong = world.look(range(count))
    await world.close()
    return {"found": found, "wrong": wrong}


async def use(folder: Path, count: int, *, cut_at: int | None = None) -> dict[str, Any]:
    """Looks up all, keeps new ones, looks up all again; `cut_at` cuts the data file while it is open."""
    began_s = time.monotonic()
    world = World(folder)
    opened_s = time.monotonic() - began_s
    if cut_at is not None:
        world.look(range(count))
        os.truncate(folder / "data.mdb", cut_at)
    found, wrong = world.look(range(count))
    new = range(10_000, 10_016)
    for _ in range(3):
        await world.keep(new)
        await world.keep(range(0, count, 7))
        kept, wrong_new = world.look(new)
        again, wrong_again = world.look(range(count))
        wrong += wrong_new + wrong_again
        if kept == len(new):
            break
    counts = world.tier.counts
    adds_up = counts.lookups == counts.hits + counts.misses + counts.errors + counts.skipped
    set_aside = world.disk.set_aside is not None
    await world.close()
    return {
        "found": found,
        "again": again,
        "kept": kept,
        "new": len(new),
        "wrong": wrong,
        "errors": counts.errors,
        "adds_up": adds_up,
        "set_aside": set_aside,
        "opened_s": opened_s,
        "told": world.told,
    }


def main() -> None:
    for line in sys.stdin:
        case = json.loads(line)
        told_by, tells = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(told_by)
            signal.alarm(HANGS_S)
            job = {"make": make, "use": use}[case.pop("do")]
            told = asyncio.run(job(Path(case.pop("folder")), case.pop("count"), **case))
            os.write(tells, json.dumps(told).encode())
            os._exit(0)
        os.close(tells)
        with os.fdopen(told_by, "rb") as pipe:
            said = pipe.read()
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(json.dumps({"ended": ended, **json.loads(said or b"{}")}), flush=True)


if __name__ == "__main__":
    main()
