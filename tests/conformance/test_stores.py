"""The laws of every store (ports.Store).  A new store joins the list below and writes few tests of its own."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from foretold.ports import NearStore, Put
from foretold.stores.cloudflare.api import LARGEST_BYTES
from foretold.stores.cloudflare.store import CloudflareKv
from foretold.stores.disk import DiskStore
from foretold.stores.memory import MemoryStore
from tests.fakes.store import TroubledStore
from tests.kv import an_account_with_kv, kv_store

LIMIT_BYTES = 8 * 2**20
NAMES = ["a", "b", "ab", "a" * 64, "A", "a.b", "0" * 64, "a/b", "a%2Fb", "é"]


@dataclass
class Clock:
    now_ms: int = 1_000_000
    read: Callable[[], int] = field(init=False)

    def __post_init__(self) -> None:
        self.read = lambda: self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


BOUNDED = ["memory", "memory of shares", "disk", "far"]


@pytest.fixture(params=[*BOUNDED, "cloudflare kv"])
async def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> AsyncIterator[Any]:
    async with opened(request.param, tmp_path, clock) as made:
        yield made


@pytest.fixture(params=BOUNDED)
async def bounded(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> AsyncIterator[Any]:
    """A store that says what it holds and how much it may hold."""
    async with opened(request.param, tmp_path, clock) as made:
        yield made


@asynccontextmanager
async def opened(kind: str, folder: Path, clock: Clock) -> AsyncIterator[Any]:
    made: MemoryStore | DiskStore | TroubledStore
    if kind == "cloudflare kv":
        async with an_account_with_kv(now_s=lambda: clock.now_ms / 1000) as (account, api):
            yield kv_store(api, clock=clock)
            assert not [call for call in account.calls if call.status not in (200, 404)]
        return
    if kind.startswith("memory"):
        made = MemoryStore(LIMIT_BYTES, largest_bytes=2**20, now_ms=clock.read)
        made.share(90 if kind == "memory of shares" else 100)
    elif kind == "far":
        made = TroubledStore(LIMIT_BYTES, now_ms=clock.read)
    else:
        made = DiskStore(folder / "store", LIMIT_BYTES, now_ms=clock.read)
    yield made
    await made.close()


def too_large_for(store: Any) -> int:
    return LARGEST_BYTES if isinstance(store, CloudflareKv) else LIMIT_BYTES


async def test_what_was_put_is_got_whole(store):
    blobs = {f"n{size}": bytes(random.Random(size).randbytes(size)) for size in (0, 1, 100, 4096, 65_536, 900_000)}

    for name, blob in blobs.items():
        await store.put(name, blob, keep_s=60)

    for name, blob in blobs.items():
        assert await store.get(name) == blob


async def test_a_near_store_has_at_once_what_it_has(store):
    if not isinstance(store, NearStore):
        assert not hasattr(store, "get_now")
        return
    await store.put("name", b"x" * 100_000, keep_s=60)

    assert store.get_now("name") == b"x" * 100_000
    assert store.get_now("never") is None


async def test_several_put_at_once_are_all_there(store):
    puts = [Put(f"n{i}", b"%d" % i, 60) for i in range(50)]

    failed = await store.put_many(puts)

    assert failed == 0
    for put in puts:
        assert await store.get(put.name) == put.blob


async def test_putting_none_at_once_is_harmless(store):
    assert await store.put_many([]) == 0


async def test_what_was_never_put_is_none(store):
    assert await store.get("never") is None


async def test_the_last_put_wins(store):
    for value in (b"one", b"two", b"three"):
        await store.put("name", value, keep_s=60)

    assert await store.get("name") == b"three"


async def test_what_was_deleted_is_none_and_deleting_again_is_harmless(store):
    await store.put("name", b"x", keep_s=60)

    await store.delete("name")
    await store.delete("name")

    assert await store.get("name") is None


async def test_what_is_past_its_time_is_none(store, clock):
    await store.put("name", b"x", keep_s=60)

    clock.now_ms += 59_999
    just_before = await store.get("name")
    clock.now_ms += 1

    assert just_before == b"x"
    assert await store.get("name") is None


async def test_putting_again_renews_the_time(store, clock):
    await store.put("name", b"x", keep_s=60)
    clock.now_ms += 50_000
    await store.put("name", b"y", keep_s=60)
    clock.now_ms += 50_000

    assert await store.get("name") == b"y"


async def test_names_are_apart(store):
    for name in NAMES:
        await store.put(name, name.encode(), keep_s=60)

    for name in NAMES:
        assert await store.get(name) == name.encode()


async def test_a_store_that_tells_its_names_tells_all(bounded):
    for name in NAMES:
        await bounded.put(name, name.encode(), keep_s=60)

    assert sorted(bounded.scan()) == sorted(NAMES)


async def test_it_never_holds_more_than_its_limit_and_keeps_the_newest(bounded):
    blob = random.Random(1).randbytes(100_000)
    for i in range(300):
        await bounded.put(f"n{i}", blob, keep_s=60)
        assert bounded.held_bytes <= bounded.limit_bytes

    assert await bounded.get("n299") == blob
    assert await bounded.get("n0") is None
    assert len(list(bounded.scan())) > 20


async def test_small_values_are_bounded_too(bounded):
    for start in range(0, 40_000, 2_000):
        await asyncio.gather(*(bounded.put(f"{i:064}", b"x" * 100, keep_s=60) for i in range(start, start + 2_000)))

    assert bounded.held_bytes <= bounded.limit_bytes
    assert await bounded.get(f"{39_999:064}") == b"x" * 100


async def test_a_value_too_large_for_it_is_not_kept_and_takes_the_old_one_away(store):
    await store.put("name", b"old", keep_s=60)

    await store.put("name", b"x" * (too_large_for(store) + 1), keep_s=60)

    assert await store.get("name") is None


async def test_many_tasks_at_once_never_see_another_names_value(store):
    async def work(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(60):
            name = f"n{rng.randrange(20)}"
            if rng.random() < 0.5:
                await store.put(name, name.encode() + b":" + rng.randbytes(200), keep_s=60)
            elif rng.random() < 0.2:
                await store.delete(name)
            found = await store.get(name)
            assert found is None or found.startswith(name.encode() + b":")

    await asyncio.gather(*(work(seed) for seed in range(20)))


async def test_a_cancelled_put_harms_nothing(store):
    putting = [asyncio.create_task(store.put(f"n{i}", b"x" * 1000, keep_s=60)) for i in range(100)]
    await asyncio.sleep(0)
    for task in putting[::2]:
        task.cancel()
    await asyncio.gather(*putting, return_exceptions=True)

    await store.put("after", b"y", keep_s=60)

    assert await store.get("after") == b"y"
    for i in range(100):
        assert await store.get(f"n{i}") in (None, b"x" * 1000)


async def test_large_and_small_values_take_each_others_place(store):
    values = [b"a" * 100, b"b" * 200_000, b"c" * 70_000, b"d" * 300, b"", b"e" * 65_537]

    for value in values:
        await store.put("name", value, keep_s=60)
        assert await store.get("name") == value

    await store.delete("name")
    assert await store.get("name") is None


async def test_many_large_values_put_at_once_stay_within_the_limit(bounded):
    puts = [Put(f"n{i}", bytes([i]) * 300_000, 60) for i in range(40)]

    failed = await bounded.put_many(puts)

    assert failed == 0
    assert bounded.held_bytes <= bounded.limit_bytes
    assert await bounded.get("n39") == puts[-1].blob


async def test_what_large_values_take_is_counted(bounded):
    before = bounded.held_bytes

    await bounded.put("name", b"x" * 800_000, keep_s=60)

    assert bounded.held_bytes - before >= 800_000


async def test_held_bytes_come_down_when_all_is_deleted(bounded):
    for i in range(50):
        await bounded.put(f"n{i}", b"x" * (50_000 if i % 2 else 80_000), keep_s=60)
    full = bounded.held_bytes

    for i in range(50):
        await bounded.delete(f"n{i}")

    assert bounded.held_bytes < full / 4
