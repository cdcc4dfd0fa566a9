"""What a newer record replaced is never found again: not while the newer waits to be written, nor if it never is."""

from __future__ import annotations

import asyncio

import pytest

from foretold.errors import StoreError
from foretold.stores.disk import DiskStore
from foretold.stores.memory import MemoryStore
from foretold.tiers import waiting
from foretold.tiers.keeping import Keeping
from foretold.tiers.order import Tiers
from foretold.tiers.tier import Tier
from tests.clock import Clock
from tests.fakes.records import KEY, NAMESPACE, SECRET, record
from tests.fakes.store import TroubledStore
from tests.waiting import until


class World:
    """One tier below a memory that takes nothing; puts and gets of a far one wait for their gates."""

    def __init__(self, store=None):
        self.clock = Clock()
        self.store = store or TroubledStore(now_ms=self.clock)
        self.tier = Tier(self.store, deadline_s=5, write_deadline_s=5)
        self.memory = MemoryStore(0, largest_bytes=0, now_ms=self.clock)
        self.tiers = Tiers(self.memory, [self.tier], secret=SECRET, now_ms=self.clock)
        self.keeping = Keeping(self.tiers, secret=SECRET, largest_bytes=2**24, now_ms=self.clock)
        (self.queue,) = self.tiers.queues

    def keep(self, body: bytes, key: str = KEY) -> str | None:
        self.clock.forward(s=1)
        made = {"made_ms": self.clock.now_ms, "asked_ms": self.clock.now_ms}
        return self.keeping.keep(record(key=key, body=body, **made), owner="o")

    async def find(self, key: str = KEY) -> bytes | None:
        found = self.tiers.look_near(key, NAMESPACE) or await self.tiers.look_far(key, NAMESPACE)
        return None if found is None else found.held.body

    def gate(self, name: str) -> tuple[asyncio.Event, asyncio.Event]:
        """From now on this method of the store says that it began, and waits."""
        began, goes_on, method = asyncio.Event(), asyncio.Event(), getattr(self.store, name)

        async def gated(asked):
            done = await method(asked) if name == "get" else None
            began.set()
            await goes_on.wait()
            return done if name == "get" else await method(asked)

        setattr(self.store, name, gated)
        return began, goes_on

    async def close(self) -> None:
        await self.keeping.close()
        await self.tiers.close()


def disk(folder, clock) -> DiskStore:
    return DiskStore(folder, 2**24, now_ms=clock)


async def test_what_waits_to_be_written_is_found_at_once(tmp_path):
    world = World(disk(tmp_path, Clock()))

    world.keep(b"x" * 1_500_000)
    found = world.tiers.look_near(KEY, NAMESPACE)

    assert found.held.body == b"x" * 1_500_000
    assert found.tier == "disk"
    assert world.tier.counts.writes == 0
    assert (world.tier.counts.lookups, world.tier.counts.hits) == (1, 1)
    await world.close()


async def test_a_refresh_answers_the_next_request_before_it_is_written(tmp_path):
    world = World(disk(tmp_path, Clock()))
    world.keep(b"old" * 500_000)
    await world.keeping.flush()

    world.keep(b"new" * 500_000)

    assert await world.find() == b"new" * 500_000
    assert (await world.tiers.by_key(KEY))[1]["made_ms"] == world.clock.now_ms
    await world.close()


async def test_what_is_being_written_is_found_until_something_newer_waits():
    world = World()
    began, goes_on = world.gate("put_many")
    world.keep(b"first")
    await began.wait()

    written = await world.find()
    world.keep(b"second")
    newer = await world.find()

    assert (written, newer) == (b"first", b"second")
    goes_on.set()
    await world.close()
    assert world.tier.counts.lookups == world.tier.counts.hits == 2


async def test_what_is_purged_while_it_is_being_written_is_not_found_from_then_on():
    world = World()
    began, goes_on = world.gate("put_many")
    world.keep(b"old")
    await began.wait()

    purging = asyncio.create_task(world.keeping.forget(KEY))
    await asyncio.sleep(0)
    meanwhile = await world.find()
    goes_on.set()
    await purging

    assert meanwhile is None
    assert await world.find() is None
    await world.close()


@pytest.mark.parametrize("change", ["refreshed", "purged"])
async def test_a_tier_that_was_asked_before_a_change_tells_nothing_older(change):
    world = World()
    world.keep(b"old")
    await world.keeping.flush()
    began, goes_on = world.gate("get")
    asking = asyncio.create_task(world.find())
    await began.wait()

    if change == "refreshed":
        world.keep(b"new")
    else:
        await world.keeping.forget(KEY)
    goes_on.set()

    assert await asking == (b"new" if change == "refreshed" else None)
    await world.close()


async def no_room(world: World, monkeypatch) -> None:
    world.store.trouble = "full"


async def left_out(world: World, monkeypatch) -> None:
    world.store.trouble = "full"
    for number in range(5):
        world.keep(b"x", key=f"{number + 1:064}")
        await world.keeping.flush()
    assert world.tier.writing == "left out"


async def too_many_wait(world: World, monkeypatch) -> None:
    monkeypatch.setattr(waiting, "QUEUE_BYTES", 0)


@pytest.mark.parametrize("trouble", [no_room, left_out, too_many_wait])
async def test_what_a_refresh_replaced_does_not_return_though_the_refresh_is_not_written(trouble, monkeypatch):
    world = World()
    world.keep(b"old")
    await world.keeping.flush()
    await trouble(world, monkeypatch)

    world.keep(b"new")
    await world.keeping.flush()

    assert await world.find() is None
    assert KEY not in world.store.scan()
    assert world.tier.counts.deletes > 0
    await world.close()


async def test_what_a_refresh_replaced_does_not_return_though_its_tenant_has_written_its_share(tmp_path):
    world = World(disk(tmp_path, Clock()))
    world.keeping.share(1)
    world.keep(b"x" * 100_000)
    await world.keeping.flush()

    told = world.keep(b"y" * 100_000)
    at_once = await world.find()
    await world.keeping.flush()

    assert (told, at_once) == ("over-share", None)
    assert await world.find() is None
    assert list(world.store.scan()) == []
    await world.close()


async def test_what_a_near_tier_does_not_have_need_not_go(tmp_path):
    world = World(disk(tmp_path, Clock()))
    world.keeping.share(1)
    world.keep(b"x" * 100_000)
    await world.keeping.flush()

    for number in range(50):
        world.keep(b"y" * 100_000, key=f"{number + 1:064}")

    assert world.queue.deletes == 0
    assert await world.find() == b"x" * 100_000
    await world.close()


async def test_a_delete_that_fails_is_tried_again_until_it_is_done(monkeypatch):
    monkeypatch.setattr(waiting, "FIRST_PAUSE_S", 0.01)
    world = World()
    world.keep(b"old")
    await world.keeping.flush()
    world.store.trouble = "refuses"

    world.keep(b"new")
    await until(lambda: world.tier.counts.delete_errors >= 2)
    while_refused = world.queue.deletes, await world.find()
    world.store.trouble = ""
    await until(lambda: world.queue.deletes == 0)

    assert while_refused == (1, None)
    assert world.tier.counts.deletes == 1
    assert await world.store.get(KEY) is None
    await world.close()


async def test_at_the_end_what_must_go_is_tried_once_more_and_the_log_says_what_stayed(caplog):
    world = World()
    for number in range(3):
        world.keep(b"old", key=f"{number:064}")
    await world.keeping.flush()
    world.store.trouble = "refuses"
    for number in range(3):
        world.keep(b"new", key=f"{number:064}")
    await world.keeping.flush()

    await world.keeping.close()

    assert [r.getMessage() for r in caplog.records if "delete" in r.getMessage()] == [
        "the far tier did not delete 3 records that newer ones replaced: they may be served again"
    ]
    world.store.trouble = ""
    await world.tiers.close()


async def test_a_record_kept_after_a_delete_that_failed_is_not_deleted():
    world = World()
    world.store.trouble = "refuses"
    world.keep(b"first")
    await world.keeping.flush()
    world.store.trouble = ""

    world.keep(b"second")
    await world.close()

    assert world.queue.deletes == 0
    assert world.tier.counts.writes == 1


async def test_of_a_batch_only_what_was_not_written_goes():
    world = World()
    puts = []

    async def without_last(batch):
        puts.extend(batch)
        for put in batch[:-1]:
            await world.store.put(put.name, put.blob, keep_s=put.keep_s)
        return 1

    keys = [f"{number:064}" for number in range(4)]
    for key in keys:
        world.keep(b"old", key=key)
    await world.keeping.flush()
    world.store.put_many = without_last
    for key in keys:
        world.keep(b"new", key=key)
    await world.keeping.flush()

    assert len(puts) == 4
    assert [await world.find(key) for key in keys] == [b"new", b"new", b"new", None]
    await world.close()


async def test_those_that_must_go_are_bounded_and_counted(monkeypatch):
    monkeypatch.setattr(waiting, "QUEUE_DELETES", 10)
    world = World()
    world.store.trouble = "refuses"

    for number in range(25):
        world.keep(b"x", key=f"{number:064}")
        await world.keeping.flush()

    assert world.queue.deletes == 10
    assert world.tier.counts.deletes_dropped == 15
    world.store.trouble = ""
    await world.close()


async def test_a_purge_that_fails_is_told_and_tried_again():
    world = World()
    world.keep(b"old")
    await world.keeping.flush()
    world.store.trouble = "refuses"

    with pytest.raises(StoreError):
        await world.keeping.forget(KEY)
    found = await world.find()
    world.store.trouble = ""
    await world.close()

    assert found is None
    assert world.store.held_bytes == 0
