"""What holds after any fault, whatever it was.

1. No wrong byte: a whole text is the answer to its question.
2. No foreign byte: no answer and no error carries another caller's mark.
3. No half record: what is a hit afterwards is whole.
4. No hang: every question ends within a bound.
5. Counts add up: received = the sum over `how`, and over `ended`; look-ups of a tier = hits + misses + errors.
6. All is given back: tasks, files, room for bodies, connections to the upstream, flights, readers of the disk tier, memory.
7. The next question is answered, and the one that failed within seconds.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foretold.assemble import wall_ms
from foretold.stores.disk import DiskStore
from tests.fakes.upstream import FakeUpstream, answer
from tests.faults.marked import Got, ask, mark
from tests.running import Client, in_front_of, running
from tests.waiting import until

# For faults that only a time-out ends; all others get time enough for a busy machine.
SHORT = 'connect_timeout = "1s"\nfirst_byte_timeout = "500ms"\nidle_timeout = "500ms"\ntotal_timeout = "1500ms"\n'
LONG = 'first_byte_timeout = "20s"\nidle_timeout = "20s"\ntotal_timeout = "30s"\n'
BODIES_TOGETHER_BYTES = 256 * 2**20
# What the allocator may keep of a fault; a bomb or an endless answer held would be far more.
MEMORY_GROWS_BYTES = 48 * 2**20
RECOVERS_S = 10.0
# A flight that nobody rides any more ends at once, long before a time-out of LONG would end it.
LANDS_S = 8.0


@dataclass(frozen=True)
class Held:
    """What a node at rest holds."""

    tasks: int
    files: int
    flights: int
    room_bytes: int
    asking_upstream: int
    reading_disk: int


class World:
    """A node before an upstream whose every answer repeats its question's mark."""

    def __init__(self, node: Client, upstream: FakeUpstream):
        self.node = node
        self.upstream = upstream
        self.wrongs: list[str] = []
        self._asked = 0

    async def ask(self, name: object, **asked: Any) -> Got:
        """Asks with a mark of this name; whatever is wrong with the answer is noted.  Rules 1 to 4."""
        return self.noted(await ask(self.node.url, mark(name), **asked))

    def noted(self, got: Got) -> Got:
        self.wrongs += got.wrongs
        return got

    async def answers_again(self, name: object, **asked: Any) -> None:
        """The question of this name is answered, and then known: whole, both times.  Rule 7."""
        async with asyncio.timeout(RECOVERS_S):
            while not (await self.ask(name, **asked)).is_answer:
                await asyncio.sleep(0.02)  # an answer was there each time: this is no wait for an event
            while not (known := await self.ask(name, **asked)).is_hit:
                await asyncio.sleep(0.02)
        assert known.is_answer

    async def is_at_rest(self) -> Held:
        """What the node holds once nothing is asked any more; connections that only wait are closed first."""
        await until(lambda: len(self.node.node.flights) == 0, within_s=LANDS_S)
        await self.node.node.keeping.flush()
        self.upstream.hang_up()
        await self.node.rest()
        previous: Held | None = None
        for _ in range(200):
            gc.collect()
            held = self._held()
            if held == previous:
                return held
            previous = held
            await asyncio.sleep(0.01)
        raise AssertionError(f"it never came to rest: {previous}")

    def _held(self) -> Held:
        node = self.node
        connectors = [u._session.connector for u in node.live.upstreams.values() if u._session is not None]
        return Held(
            tasks=len(asyncio.all_tasks()),
            files=len(os.listdir("/proc/self/fd")),
            flights=len(node.node.flights),
            room_bytes=node.live._bodies._room_bytes,
            asking_upstream=sum(len(connector._acquired) for connector in connectors if connector is not None),
            reading_disk=sum(_readers(tier.store) for tier in node.node.tiers.below),
        )

    def adds_up(self) -> list[str]:
        """Rule 5."""
        counters, tiers = self.node.node.counters, self.node.node.tiers
        found = []
        for name, counted in (
            ("how", sum(c.count for c in counters.how.values())),
            ("ended", sum(counters.ended.values())),
        ):
            if counted != counters.received:
                found.append(f"{counters.received} were received, and {counted} have a {name}")
        for name, counts in (("memory", tiers.memory_counts), *((tier.name, tier.counts) for tier in tiers.below)):
            if counts.lookups != counts.hits + counts.misses + counts.errors:
                found.append(f"look-ups of {name} don't add up: {counts}")
            if min(counts.lookups, counts.hits, counts.misses, counts.errors) < 0:
                found.append(f"{name} counted below nothing: {counts}")
        if any(tier.store.held_bytes > tier.store.limit_bytes for tier in tiers.below):
            found.append("the disk tier holds more than it may")
        if not 0 <= tiers.memory.held_bytes <= tiers.memory.limit_bytes:
            found.append(f"memory holds {tiers.memory.held_bytes} of {tiers.memory.limit_bytes} bytes")
        return found


@asynccontextmanager
async def enduring(
    upstream: FakeUpstream,
    folder: Path,
    settings: str = "",
    *,
    now_ms: Callable[[], int] = wall_ms,
    timeouts: str = LONG,
    room_bytes: int = BODIES_TOGETHER_BYTES,
) -> AsyncIterator[World]:
    """A node, for a fault to happen to it in the block: after that all seven hold, or it fails and says which don't."""
    async with running(in_front_of(upstream.url, timeouts + settings), folder, now_ms=now_ms) as node:
        world = World(node, upstream)
        for stream in (False, True):
            await world.answers_again(f"before {stream}", stream=stream)
        before, before_bytes = await world.is_at_rest(), resident_bytes()

        yield world

        upstream.on("m", answer)
        for stream in (False, True):
            await world.answers_again(f"after {stream}", stream=stream)
        after = await world.is_at_rest()
        assert world.wrongs + world.adds_up() == []
        assert after == before
        assert after.room_bytes == room_bytes
        assert (after.flights, after.asking_upstream, after.reading_disk) == (0, 0, 0)
        assert resident_bytes() - before_bytes < MEMORY_GROWS_BYTES


def resident_bytes() -> int:
    """Of this process, once the allocator gave back what is free."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _readers(store: Any) -> int:
    """Readers of a disk store that hold a snapshot; a slot without one is free."""
    assert isinstance(store, DiskStore)
    opened = store._writer.opened
    assert opened is not None
    return sum(line.split()[-1] != "-" for line in opened.env.readers().splitlines()[1:] if line.split())
