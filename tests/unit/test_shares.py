"""No owner pushes out the others: what it holds of memory is bounded, and what it writes below."""

from __future__ import annotations

import random

import pytest

from foretold.stores.disk import DiskStore
from foretold.stores.memory import MemoryStore
from foretold.tiers.allowance import WINDOW_MS, Allowance
from foretold.tiers.keeping import Keeping
from foretold.tiers.order import Tiers
from foretold.tiers.tier import Tier
from tests.clock import Clock
from tests.fakes.records import SECRET, record

LIMIT_BYTES = 2**20
FOREVER_MS = 2**60


def memory(percent: int = 50) -> MemoryStore:
    store = MemoryStore(LIMIT_BYTES, largest_bytes=LIMIT_BYTES, now_ms=Clock())
    store.share(percent)
    return store


def put(store: MemoryStore, owner: str, number: int, length: int = 1000) -> None:
    store.put_now(f"{owner}{number}", b"x" * length, gone_at_ms=FOREVER_MS, owner=owner)


def held(store: MemoryStore, owner: str) -> list[int]:
    return [int(name.removeprefix(owner)) for name in store.scan() if name.startswith(owner)]


def test_a_flood_of_one_owner_takes_nothing_from_another():
    store = memory()
    for number in range(200):
        put(store, "quiet", number)

    for number in range(10_000):
        put(store, "flood", number)

    assert held(store, "quiet") == list(range(200))
    assert LIMIT_BYTES * 0.48 < store.held_by("flood") <= LIMIT_BYTES / 2
    assert store.held_bytes == store.held_by("quiet") + store.held_by("flood") <= LIMIT_BYTES


def test_over_its_share_an_owners_own_oldest_go_first():
    store = memory()

    for number in range(1000):
        put(store, "flood", number)

    kept = held(store, "flood")
    assert kept == list(range(1000 - len(kept), 1000))


def test_of_a_flood_what_is_asked_for_again_and_again_stays():
    store = memory()
    put(store, "flood", 0)

    for number in range(1, 5000):
        put(store, "flood", number)
        assert store.entry("flood0") is not None


def test_without_shares_one_owner_may_hold_all():
    store = memory(100)

    for number in range(2000):
        put(store, "only", number)

    assert store.held_bytes > LIMIT_BYTES * 0.98


def test_what_is_longer_than_a_share_is_not_taken_and_takes_nothing_away():
    store = memory(10)
    put(store, "owner", 1)

    put(store, "owner", 2, LIMIT_BYTES // 5)

    assert held(store, "owner") == [1]


def test_what_was_derived_counts_to_the_share():
    store = memory()
    for number in range(300):
        put(store, "a", number)
    newest = store.entry("a299")

    store.grown("a299", newest, LIMIT_BYTES // 4)

    assert store.held_by("a") <= LIMIT_BYTES / 2
    assert store.entry("a299") is newest


def test_a_share_that_changes_while_the_store_is_full_is_in_force_at_once():
    store = memory(100)
    for number in range(300):
        put(store, "a", number)
        put(store, "b", number)

    store.share(20)
    bounded = [store.held_by(owner) for owner in "ab"]
    store.share(100)
    for number in range(300, 2000):
        put(store, "a", number)

    assert max(bounded) <= LIMIT_BYTES * 0.2
    assert min(bounded) > LIMIT_BYTES * 0.18
    assert store.held_bytes > LIMIT_BYTES * 0.98


def test_bytes_add_up_after_anything():
    rng = random.Random(1)
    store = memory(40)
    for step in range(5000):
        name = f"{rng.randrange(60)}"
        owner = rng.choice("abc")
        match rng.randrange(5):
            case 0 | 1:
                store.put_now(name, b"x" * rng.randrange(30_000), gone_at_ms=FOREVER_MS, owner=owner)
            case 2:
                if (entry := store.entry(name)) is not None:
                    store.grown(name, entry, rng.randrange(2000))
            case 3:
                store._drop(name)
            case 4 if step % 50 == 0:
                store.share(rng.choice([30, 40, 100]))
        true_bytes = sum(store._bytes_of(entry) for entry in store._entries.values())
        assert store.held_bytes == true_bytes <= LIMIT_BYTES

    store.share(50)
    assert sum(store.held_by(owner) for owner in "abc") == store.held_bytes


def test_an_owner_writes_its_share_of_a_day_and_again_on_the_next():
    clock = Clock()
    allowance = Allowance(1000, now_ms=clock)
    allowance.share(50)

    first = [allowance.take("a", 200) for _ in range(4)]
    other = allowance.take("b", 500)
    clock.now_ms += WINDOW_MS
    half_a_day_later = allowance.take("a", 200)
    clock.now_ms += WINDOW_MS
    next_day = allowance.take("a", 200)

    assert first == [True, True, False, False]
    assert other
    assert not half_a_day_later
    assert next_day


@pytest.mark.parametrize("step_ms", [-(10**9), 10**12])
def test_a_clock_that_jumps_stops_nobody_for_longer_than_a_day(step_ms):
    clock = Clock()
    allowance = Allowance(1000, now_ms=clock)
    allowance.share(50)
    allowance.take("a", 500)

    clock.now_ms += step_ms

    assert allowance.take("a", 500)


async def test_what_a_tenant_writes_beyond_its_share_is_in_memory_only_and_counted(tmp_path):
    clock = Clock()
    disk = Tier(DiskStore(tmp_path, 2**22, now_ms=clock), deadline_s=5)
    tiers = Tiers(MemoryStore(2**24, largest_bytes=2**20, now_ms=clock), [disk], secret=SECRET, now_ms=clock)
    keeping = Keeping(tiers, secret=SECRET, largest_bytes=2**22, now_ms=clock)
    keeping.share(50)

    def keep(number: int, owner: str) -> str | None:
        made = {"made_ms": clock.now_ms, "asked_ms": clock.now_ms, "key": f"{owner}{number:063}"}
        return keeping.keep(record(body=b"x" * 100_000, **made), owner=owner)

    told = [keep(number, "f") for number in range(40)] + [keep(0, "0")]
    await keeping.flush()

    assert told == [None] * 41
    assert disk.counts.over_share == 20
    assert disk.counts.writes == 21
    assert await disk.get(f"0{0:063}") is not None
    await keeping.close()
    await tiers.close()


async def test_an_answer_that_no_tier_may_take_for_its_tenants_share_says_so(tmp_path):
    clock = Clock()
    disk = Tier(DiskStore(tmp_path, 2**22, now_ms=clock), deadline_s=5)
    tiers = Tiers(MemoryStore(0, largest_bytes=0, now_ms=clock), [disk], secret=SECRET, now_ms=clock)
    keeping = Keeping(tiers, secret=SECRET, largest_bytes=2**22, now_ms=clock)
    keeping.share(10)

    told = [
        keeping.keep(record(key=f"{n:064}", body=b"x" * 200_000, made_ms=clock.now_ms), owner="a") for n in range(3)
    ]

    assert told == [None, None, "over-share"]
    await keeping.close()
    await tiers.close()
