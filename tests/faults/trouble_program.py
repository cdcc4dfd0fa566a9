"""Writes and reads through a tier while strace makes its system calls fail; tells how it went.

It tells by `pwritev` and `sendfile`, which no fault is injected into.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from foretold.errors import StoreError
from foretold.ports import Put
from foretold.stores.disk import DiskStore
from foretold.tiers.tier import Tier

LIMIT_BYTES = 16 * 2**20


def value(name: str, turn: int) -> bytes:
    return f"{name}:{turn}:".encode() * (10_000 if name.startswith("large") else 20)


async def main(folder: Path) -> None:
    told: list[str] = []
    try:
        store = DiskStore(folder, LIMIT_BYTES, now_ms=lambda: time.time_ns() // 10**6, tell=told.append, patience_s=1)
    except StoreError as e:
        say({"refused": str(e)})
        return
    tier = Tier(store, deadline_s=5)
    names = [f"{kind}{i}" for kind in ("small", "large") for i in range(4)]
    wrong = found = 0
    slowest_read_s = 0.0
    for turn in range(6):
        putting = asyncio.create_task(tier.put_many([Put(name, value(name, turn), 3600) for name in names]))
        await asyncio.sleep(0)
        while True:
            for name in names:
                began_s = time.monotonic()
                blob = tier.get_now(name)
                slowest_read_s = max(slowest_read_s, time.monotonic() - began_s)
                found += blob is not None
                wrong += blob not in (None, *(value(name, earlier) for earlier in range(turn + 1)))
            if putting.done():
                break
            await asyncio.wait([putting], timeout=0.05)
    last = sum(tier.get_now(name) == value(name, 5) for name in names)
    began_s = time.monotonic()
    await store.close()
    counts = tier.counts
    say(
        {
            "wrong": wrong,
            "found": found,
            "last": last,
            "writes": counts.writes,
            "write_errors": counts.write_errors,
            "dropped": counts.dropped,
            "adds_up": counts.lookups == counts.hits + counts.misses + counts.errors + counts.skipped,
            "slowest_read_s": slowest_read_s,
            "closed_s": time.monotonic() - began_s,
            "set_aside": store.set_aside is not None,
            "told": told,
        }
    )


def say(told: dict[str, Any]) -> None:
    text = json.dumps(told).encode()
    file = os.memfd_create("told")
    os.pwritev(file, [text], 0)
    os.sendfile(1, file, 0, len(text))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
