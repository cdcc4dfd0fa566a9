"""Order and promotion; and that no store can make an answer fail."""

from __future__ import annotations

import asyncio

import pytest

from foretold.contract.record import pack
from foretold.errors import StoreError
from foretold.stores.disk import DiskStore
from foretold.stores.memory import MemoryStore
from foretold.tiers.held import lifetimes_of
from foretold.tiers.keeping import Keeping
from foretold.tiers.order import Tiers
from foretold.tiers.tier import Tier
from foretold.tiers.waiting import QUEUE_BYTES
from tests.clock import Clock
from tests.fakes.records import NAMESPACE, SECRET, record


class FakeStore:
    """Bytes in a dict; fails, hangs or waits as it is told."""

    name = "fake"
    limit_bytes = 1

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.fails = False
        self.gate: asyncio.Event | None = None
        self.puts: list[str] = []

    @property
    def held_bytes(self) -> int:
        return sum(map(len, self.blobs.values()))

    async def get(self, name):
        await self._step()
        return self.blobs.get(name)

    async def put(self, name, blob, *, keep_s):
        await self._step()
        self.puts.append(name)
        self.blobs[name] = blob

    async def put_many(self, puts):
        for put in puts:
            await self.put(put.name, put.blob, keep_s=put.keep_s)
        return 0

    async def delete(self, name):
        await self._step()
        self.blobs.pop(name, None)

    async def close(self):
        return None

    async def _step(self):
        if self.gate is not None:
            await self.gate.wait()
        if self.fails:
            raise StoreError("the disk is on fire")


class World:
    def __init__(self, *, deadline_s: float = 5.0):
        self.clock = Clock()
        self.store = FakeStore()
        self.tier = Tier(self.store, deadline_s=deadline_s)
        self.memory = MemoryStore(2**20, largest_bytes=2**16, now_ms=self.clock)
        self.tiers = Tiers(self.memory, [self.tier], secret=SECRET, now_ms=self.clock)
        self.keeping = Keeping(self.tiers, secret=SECRET, largest_bytes=2**22, now_ms=self.clock)

    async def look_up(self, key):
        return self.tiers.look_near(key, NAMESPACE) or await self.tiers.look_far(key, NAMESPACE)

    def record(self, **members):
        return record(made_ms=self.clock.now_ms, asked_ms=self.clock.now_ms, **members)


async def test_what_is_kept_is_in_memory_at_once_and_below_soon():
    world = World()
    kept = world.record()

    why_not = world.keeping.keep(kept)
    found = await world.look_up(kept.key)
    await world.keeping.flush()

    assert why_not is None
    assert found.tier == "memory"
    assert found.held.body == kept.body
    assert world.store.blobs[kept.key] == pack(kept, SECRET)
    await world.keeping.close()


async def test_what_is_found_below_comes_up_and_is_found_in_memory_next():
    world = World()
    kept = world.record()
    world.store.blobs[kept.key] = pack(kept, SECRET)

    first = await world.look_up(kept.key)
    second = await world.look_up(kept.key)

    assert (first.tier, second.tier) == ("fake", "memory")
    assert second.held.made_ms == kept.made_ms


async def test_a_tier_that_fails_is_a_miss_and_is_counted():
    world = World()
    world.store.fails = True

    assert await world.look_up("0" * 64) is None
    assert world.keeping.keep(world.record()) is None
    await world.keeping.flush()
    counts = world.tier.counts
    assert (counts.lookups, counts.errors, counts.write_errors, counts.writes) == (1, 1, 1, 0)
    await world.keeping.close()


async def test_a_tier_slower_than_its_deadline_is_a_miss():
    world = World(deadline_s=0.01)
    world.store.gate = asyncio.Event()

    assert await world.look_up("0" * 64) is None
    assert world.tier.counts.errors == 1


@pytest.mark.parametrize("damage", ["flipped", "cut", "another key", "another namespace", "another secret", "empty"])
async def test_what_is_no_whole_record_of_this_query_is_absent_counted_and_deleted(damage):
    world = World()
    kept = world.record()
    blob = bytearray(pack(kept, SECRET))
    if damage == "flipped":
        blob[-1] ^= 1
    elif damage == "cut":
        del blob[-1:]
    elif damage == "another key":
        blob = bytearray(pack(world.record(key="1" * 64), SECRET))
    elif damage == "another namespace":
        blob = bytearray(pack(world.record(namespace="2" * 64), SECRET))
    elif damage == "another secret":
        blob = bytearray(pack(kept, b"1" * 32))
    else:
        blob.clear()
    world.store.blobs[kept.key] = bytes(blob)

    found = await world.look_up(kept.key)

    assert found is None
    assert world.tiers.corrupt == 1
    await world.tiers.close()
    assert kept.key not in world.store.blobs
    counts = world.tier.counts
    assert counts.lookups == counts.hits + counts.misses + counts.errors == 1
    assert counts.errors == 1


async def test_a_record_held_for_one_namespace_is_never_given_to_another():
    world = World()
    kept = world.record()
    world.keeping.keep(kept)

    assert world.tiers.in_memory(kept.key, "f" * 64) is None
    await world.keeping.close()


async def test_writes_beyond_the_queues_bound_are_dropped_and_counted_and_no_answer_waits():
    world = World()
    world.store.gate = asyncio.Event()
    body = b"x" * 2**21
    told = [world.keeping.keep(world.record(key=f"{i:064}", body=body)) for i in range(2 * QUEUE_BYTES // len(body))]

    assert told[0] is None
    assert told.count("queue-full") == world.tier.counts.dropped > 0
    world.store.gate.set()
    await world.keeping.flush()
    assert world.tier.counts.writes + world.tier.counts.dropped == 2 * QUEUE_BYTES // len(body)
    await world.keeping.close()


async def test_a_record_longer_than_may_be_kept_is_not():
    world = World()

    assert world.keeping.keep(world.record(body=b"x" * 2**23)) == "too-long"


@pytest.mark.parametrize("below", ["none", "disk"])
async def test_a_record_longer_than_every_tier_takes_is_not_kept_and_says_so(tmp_path, below):
    clock = Clock()
    disk = [Tier(DiskStore(tmp_path, 2**22, now_ms=clock), deadline_s=5)] if below == "disk" else []
    tiers = Tiers(MemoryStore(2**20, largest_bytes=2**16, now_ms=clock), disk, secret=SECRET, now_ms=clock)
    keeping = Keeping(tiers, secret=SECRET, largest_bytes=2**22, now_ms=clock)
    largest = 2**22 // 8 if disk else 2**16
    made = {"made_ms": clock.now_ms, "asked_ms": clock.now_ms}

    told = [keeping.keep(record(key=f"{n:064}", body=b"x" * n, **made)) for n in (largest - 2000, largest + 1)]
    await keeping.flush()

    assert told == [None, "too-long"]
    assert keeping.kept == 1
    assert not keeping.takes(largest + 1)
    assert await tiers.by_key(f"{largest - 2000:064}") is not None
    await keeping.close()
    await tiers.close()


async def test_a_record_whose_header_is_too_long_is_not_kept_and_harms_nothing():
    world = World()

    assert world.keeping.keep(world.record(model="m" * 20_000)) == "header-too-long"


async def test_what_is_forgotten_while_it_waits_to_be_written_is_not_written():
    world = World()
    kept = world.record()
    world.keeping.keep(kept)

    await world.keeping.forget(kept.key)
    await world.keeping.flush()

    assert await world.look_up(kept.key) is None
    assert kept.key not in world.store.blobs
    await world.keeping.close()


async def test_a_hit_is_never_written_back():
    world = World()
    kept = world.record()
    world.store.blobs[kept.key] = pack(kept, SECRET)

    for _ in range(3):
        await world.look_up(kept.key)
    await world.keeping.flush()

    assert world.store.puts == []


@pytest.mark.parametrize("age_s", [0, 1, 1800, 7199.5, 7199.999])
async def test_a_record_that_comes_up_keeps_its_times_and_leaves_memory_when_it_dies(age_s):
    world = World()
    kept = world.record(fresh_s=3600, stale_while_revalidate_s=3600, stale_if_error_s=1800)
    world.store.blobs[kept.key] = pack(kept, SECRET)
    world.clock.forward(s=age_s)

    found = await world.look_up(kept.key)
    world.store.blobs.clear()
    world.clock.now_ms = kept.made_ms + 7200 * 1000 - 1
    just_before = await world.look_up(kept.key)
    world.clock.now_ms += 1
    dead = await world.look_up(kept.key)

    assert (found.held.made_ms, found.held.lifetimes) == (kept.made_ms, lifetimes_of(kept))
    assert just_before.tier == "memory"
    assert dead is None
    assert world.memory.held_bytes == 0


async def test_a_record_that_is_dead_when_it_is_found_takes_no_place_in_memory():
    world = World()
    kept = world.record(fresh_s=10, stale_while_revalidate_s=0, stale_if_error_s=0)
    world.store.blobs[kept.key] = pack(kept, SECRET)
    world.clock.forward(s=10)

    found = await world.look_up(kept.key)

    assert found.tier == "fake"
    assert world.memory.held_bytes == 0


async def test_a_record_of_a_clock_ahead_of_ours_is_not_held_for_longer_than_one_made_now():
    world = World()
    kept = world.record(fresh_s=10, stale_while_revalidate_s=0, stale_if_error_s=0)
    world.store.blobs[kept.key] = pack(kept, SECRET)
    world.clock.forward(s=-(10**6))

    await world.look_up(kept.key)
    world.store.blobs.clear()
    world.clock.forward(s=10)

    assert await world.look_up(kept.key) is None


async def test_an_answer_whose_lifetimes_have_passed_is_not_kept():
    world = World()

    told = world.keeping.keep(world.record(fresh_s=0, stale_while_revalidate_s=0, stale_if_error_s=0))

    assert told == "no-lifetime"
    assert world.memory.held_bytes == 0


async def test_all_who_are_given_a_body_too_long_for_memory_get_one_bytes_object(tmp_path):
    world = World()
    disk = Tier(DiskStore(tmp_path, 2**24, now_ms=world.clock), deadline_s=5)
    tiers = Tiers(world.memory, [disk], secret=SECRET, now_ms=world.clock)
    keeping = Keeping(tiers, secret=SECRET, largest_bytes=2**22, now_ms=world.clock)
    keeping.keep(world.record(body=b"x" * 2**20))
    await keeping.flush()

    bodies = [tiers.look_near("0" * 64, NAMESPACE).held.body for _ in range(10)]
    keeping.keep(world.record(body=b"y" * 2**20))
    waiting = tiers.look_near("0" * 64, NAMESPACE).held.body
    await keeping.flush()
    written = tiers.look_near("0" * 64, NAMESPACE).held.body

    assert bodies[0] == b"x" * 2**20
    assert all(body is bodies[0] for body in bodies)
    assert written == b"y" * 2**20
    assert written is waiting
    await keeping.close()
    await tiers.close()


async def test_bodies_too_long_for_memory_are_remembered_up_to_a_bound(tmp_path, monkeypatch):
    monkeypatch.setattr("foretold.tiers.order.LATELY_BYTES", 2**21)
    world = World()
    world.memory.largest_bytes = 0
    gone = []
    for number in range(8):
        kept = world.record(key=f"{number:064}", body=b"%d" % number * 2**19)
        world.store.blobs[kept.key] = pack(kept, SECRET)

    for _ in range(2):
        gone.append([(await world.look_up(f"{number:064}")).held.body for number in range(8)])

    assert gone[0] == gone[1]
    assert all(first is not second for first, second in zip(*gone, strict=True))
