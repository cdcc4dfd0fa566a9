"""A fixed sequence of puts and deletes, and what a store may hold after some of it: the oracle of the crash tests.

As a program it runs the sequence on the folder given and says each number once it is acknowledged.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from foretold.errors import StoreError
from foretold.stores.disk import DiskStore
from foretold.stores.disk.index import is_named

LIMIT_BYTES = 4 * 2**20
# What is this new is never evicted: the store drops down to three quarters of its limit, less what comes.
NEVER_EVICTED_BYTES = LIMIT_BYTES // 2


@dataclass(frozen=True, slots=True)
class Step:
    """One put, or a delete where `size` is None."""

    number: int
    name: str
    size: int | None

    @property
    def value(self) -> bytes | None:
        if self.size is None:
            return None
        return b"%s:%d:" % (self.name.encode(), self.number) + random.Random(self.number).randbytes(self.size)


def _steps() -> list[Step]:
    """Small and large, put, replaced by the other kind, deleted; then so much that the oldest must go."""
    sizes: list[tuple[str, int | None]] = [
        ("a", 100), ("b", 3000), ("large", 70_000), ("a", 200), ("large", 90_000), ("c", 50_000), ("b", None),
        ("c", 80_000), ("large", 500), ("d", 66_000), ("d", None), ("b", 40_000), ("a", 120_000), ("a", None),
    ]  # fmt: skip
    sizes += [(f"n{i}", 350_000 if i % 2 else 30_000) for i in range(26)]
    return [Step(number, name, size) for number, (name, size) in enumerate(sizes)]


STEPS = _steps()


def wrongs(
    held: dict[str, bytes | None], *, at_least: int, at_most: int, may_be_gone: frozenset[str] = frozenset()
) -> list[str]:
    """What is wrong with a store that did the first `at_least` steps for sure, and perhaps those up to `at_most`."""
    found = []
    must_be_there = _newest(STEPS[:at_least]) - may_be_gone
    for name in {step.name for step in STEPS}:
        allowed = {_after(steps, name) for steps in (STEPS[:done] for done in range(at_least, at_most + 1))}
        value = held.get(name)
        is_lost = value is None and name in must_be_there
        if value not in allowed and (value is not None or is_lost):
            told = "nothing" if value is None else f"{len(value)} bytes: {value[:12]!r}"
            found.append(f"{name} holds {told} after {at_least} to {at_most} steps")
    return found


def _after(steps: Sequence[Step], name: str) -> bytes | None:
    return next((step.value for step in reversed(steps) if step.name == name), None)


def _newest(steps: Sequence[Step]) -> set[str]:
    """Names too new to be evicted."""
    names, size = set(), 0
    for step in reversed(steps):
        size += (step.size or 0) + 8192
        if size > NEVER_EVICTED_BYTES:
            break
        names.add(step.name)
    return names


def now_ms() -> int:
    return time.time_ns() // 10**6


async def held_in(folder: Path) -> tuple[dict[str, bytes | None], list[str]]:
    """What a store holds, after it was opened, took one more put and closed; and the files it has without a name."""
    store = DiskStore(folder, LIMIT_BYTES, now_ms=now_ms, tell=lambda line: None)
    held = {step.name: _held(store, step.name) for step in STEPS}
    await store.put("after", b"y" * 70_000, keep_s=3600)
    assert store.get_now("after") == b"y" * 70_000
    opened = store._writer.opened
    assert opened is not None
    files = [path for path in (folder / "bodies").glob("*/*") if not path.is_dir()]
    orphans = [path.name for path in files if path.suffix or not is_named(opened, bytes.fromhex(path.name))]
    await store.close()
    return held, orphans


def _held(store: DiskStore, name: str) -> bytes | None:
    try:
        return store.get_now(name)
    except StoreError:  # a tier counts it, and takes it as a miss
        return None


async def main(folder: Path) -> None:
    store = DiskStore(folder, LIMIT_BYTES, now_ms=now_ms)
    for step in STEPS:
        if (value := step.value) is None:
            await store.delete(step.name)
        else:
            await store.put(step.name, value, keep_s=3600)
        os.write(1, b"done %d\n" % step.number)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
