"""What waits for a tier is bounded, is the newest of each key, and holds nobody else up."""

from __future__ import annotations

import asyncio
import logging

import pytest

from foretold.stores.memory import MemoryStore
from foretold.tiers import waiting
from foretold.tiers.keeping import Keeping
from foretold.tiers.order import Tiers
from foretold.tiers.tier import Tier
from foretold.tiers.waiting import Waiting
from tests.clock import Clock
from tests.fakes.records import SECRET, record
from tests.fakes.store import TroubledStore


class World:
    """Two far tiers below a memory that takes nothing; the first may be in trouble."""

    def __init__(self, trouble: str = "", *, close_within_s: float = 0.2):
        self.clock = Clock()
        self.store = TroubledStore(now_ms=self.clock, name="first")
        self.store.trouble = trouble
        self.other = TroubledStore(now_ms=self.clock, name="second")
        self.tier = Tier(self.store, deadline_s=5, write_deadline_s=60)
        self.queue = Waiting(self.tier)
        self.tiers = Tiers(
            MemoryStore(0, largest_bytes=0, now_ms=self.clock),
            [self.tier, Tier(self.other, deadline_s=5)],
            secret=SECRET,
            now_ms=self.clock,
        )
        self.keeping = Keeping(
            self.tiers, secret=SECRET, largest_bytes=2**22, now_ms=self.clock, close_within_s=close_within_s
        )

    def record(self, number: int = 0):
        return record(key=f"{number:064}", made_ms=self.clock.now_ms, asked_ms=self.clock.now_ms)

    async def close(self) -> None:
        self.store.trouble = ""
        await self.queue.close(within_s=0.2)
        await self.keeping.close()


async def test_of_one_key_only_the_newest_waits_and_is_written():
    world = World()

    for n in range(100):
        world.queue.add("key", b"%d" % n, 60)
    waited = len(world.queue)
    await world.queue.flush()

    assert waited == 1
    assert await world.store.get("key") == b"99"
    assert world.tier.counts.writes == 1
    await world.close()


async def test_bytes_are_those_that_wait_whatever_was_replaced_forgotten_or_written():
    world = World()
    one = None

    for _ in range(200):
        world.queue.add("key", b"x" * 1000, 60)
        one = one or world.queue.held_bytes
    replaced = world.queue.held_bytes
    world.queue.add("other", b"x" * 1000, 60)
    await world.queue.forget("key")
    forgotten = world.queue.held_bytes
    await world.queue.flush()

    assert replaced == forgotten == one
    assert world.queue.held_bytes == 0
    await world.close()


async def test_what_is_being_written_counts_to_the_bound():
    world = World("hangs")
    blob = b"x" * 2**20
    told = []
    for n in range(200):
        told.append(world.queue.add(f"{n}", blob, 60))
        await asyncio.sleep(0)

    assert world.queue.held_bytes <= waiting.QUEUE_BYTES
    assert told.count(True) < 64
    assert told.count(False) == world.tier.counts.dropped
    await world.close()


async def test_the_number_that_waits_is_bounded_too(monkeypatch):
    monkeypatch.setattr(waiting, "QUEUE_RECORDS", 10)
    world = World("hangs")

    told = [world.queue.add(f"{n}", b"", 60) for n in range(25)]

    assert told == [True] * 10 + [False] * 15
    assert world.tier.counts.dropped == 15
    await world.close()


async def test_writes_go_in_batches_and_none_is_lost():
    world = World()

    for n in range(3000):
        world.queue.add(f"{n}", b"x" * 10_000, 60)
    await world.queue.flush()

    assert world.tier.counts.writes == 3000
    assert world.queue.held_bytes == len(world.queue) == 0
    await world.close()


async def test_a_tier_that_hangs_keeps_no_record_from_another():
    world = World("hangs")

    world.keeping.keep(world.record())
    await world.keeping._queues[1].flush()

    assert await world.other.get(world.record().key) is not None
    await world.close()


async def test_a_record_forgotten_while_it_is_being_written_is_gone_afterwards():
    world = World()
    goes_on, began = asyncio.Event(), asyncio.Event()
    put_many = world.store.put_many

    async def slowly(puts):
        began.set()
        await goes_on.wait()
        return await put_many(puts)

    world.store.put_many = slowly
    kept = world.record()
    world.keeping.keep(kept)
    await began.wait()

    forgetting = asyncio.create_task(world.keeping.forget(kept.key))
    await asyncio.sleep(0)
    goes_on.set()
    await forgetting
    await world.keeping.flush()

    assert await world.store.get(kept.key) is None
    await world.close()


@pytest.mark.parametrize("trouble", ["hangs", "hangs and doesn't heed"])
async def test_a_node_ends_in_time_and_says_what_a_tier_did_not_take(trouble, caplog):
    world = World(trouble, close_within_s=0.05)
    for number in range(7):
        world.keeping.keep(world.record(number))
        await asyncio.sleep(0)

    with caplog.at_level(logging.WARNING, "foretold"):
        await asyncio.wait_for(world.keeping.close(), 10)

    counts = world.tier.counts
    assert [r.getMessage() for r in caplog.records] == [
        "the first tier did not take 7 records within 0.05 s: they are not kept there"
    ]
    assert counts.write_errors + counts.dropped == 7
    assert world.tiers.below[1].counts.writes == 7
    await world.close()


async def test_while_writing_is_left_out_nothing_waits_and_a_record_no_tier_takes_is_not_called_kept():
    world = World("refuses")
    for n in range(5):
        world.queue.add(f"{n}", b"", 60)
        await world.queue.flush()

    assert world.tier.writing == "left out"
    assert not world.queue.add("another", b"", 60)
    assert len(world.queue) == 0
    await world.close()
