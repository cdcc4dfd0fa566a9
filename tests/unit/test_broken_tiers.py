"""A tier that hangs, refuses, lies or is full: every look-up ends, few wait, and all is counted."""

from __future__ import annotations

import asyncio
import logging
import threading
import time

import pytest

from foretold.contract.record import pack
from foretold.errors import StoreError
from foretold.ports import Put
from foretold.stores.memory import MemoryStore
from foretold.tiers.breaker import FAILURES, TRIAL, Standing
from foretold.tiers.keeping import Keeping
from foretold.tiers.order import Tiers
from foretold.tiers.tier import Tier
from tests.clock import Clock
from tests.fakes.records import NAMESPACE, SECRET, record
from tests.fakes.store import TROUBLES, SlowNearStore, TroubledStore
from tests.waiting import until

DEADLINE_S = 0.1
# What a look-up may take beyond the deadline; generous, for machines that do other things.
SLACK_S = 0.1


class World:
    def __init__(self, trouble: str = ""):
        self.clock = Clock()
        self.store = TroubledStore(now_ms=self.clock)
        self.store.trouble = trouble
        self.tier = Tier(
            self.store, deadline_s=DEADLINE_S, write_deadline_s=0.2, now_s=lambda: self.clock.now_ms / 1000
        )
        self.memory = MemoryStore(2**20, largest_bytes=2**16, now_ms=self.clock)
        self.tiers = Tiers(self.memory, [self.tier], secret=SECRET, now_ms=self.clock)
        self.keeping = Keeping(self.tiers, secret=SECRET, largest_bytes=2**22, now_ms=self.clock, close_within_s=0.2)

    def record(self, number: int):
        return record(key=f"{number:064}", made_ms=self.clock.now_ms, asked_ms=self.clock.now_ms)

    async def timed_look(self, number: int = 0) -> float:
        """Seconds that a look-up took that found nothing."""
        began_s = time.monotonic()
        assert self.tiers.look_near(f"{number:064}", NAMESPACE) is None
        assert await self.tiers.look_far(f"{number:064}", NAMESPACE) is None
        return time.monotonic() - began_s

    async def left_out(self) -> None:
        for number in range(FAILURES * 2):
            await self.timed_look(number)
        assert self.tier.reading == "left out"

    async def probe(self, number: int = 0) -> None:
        """One look-up, and the end of the probe that it may have begun."""
        await self.timed_look(number)
        await until(lambda: not self.tier._running)

    async def put(self, number: int) -> None:
        await self.tier.put_many([Put(f"{number:064}", b"x", 60)])

    def adds_up(self) -> bool:
        counts = self.tier.counts
        return counts.lookups == counts.hits + counts.misses + counts.errors + counts.skipped

    async def close(self) -> None:
        self.store.trouble = ""
        await self.keeping.close()
        await self.tiers.close()


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_at_most_five_look_ups_see_the_deadline_then_none_sees_anything(trouble):
    world = World(trouble)

    took_s = [await world.timed_look(number) for number in range(40)]

    counts = world.tier.counts
    assert max(took_s) < DEADLINE_S + SLACK_S
    assert sum(seconds > DEADLINE_S / 2 for seconds in took_s) <= 5
    assert (counts.lookups, counts.errors, counts.skipped) == (40, FAILURES, 40 - FAILURES)
    assert world.adds_up()
    await world.close()


async def test_of_many_who_wait_at_once_at_most_five_see_the_deadline():
    world = World("hangs")

    first = await asyncio.gather(*(world.timed_look(number) for number in range(64)))
    then = await asyncio.gather(*(world.timed_look(number) for number in range(64)))

    assert sum(seconds > DEADLINE_S * 0.7 for seconds in first) <= 5
    assert max(first) < DEADLINE_S + SLACK_S
    assert world.tier.counts.skipped == len(then)
    assert world.adds_up()
    await world.close()


async def test_look_ups_that_come_while_others_wait_add_none_to_the_five():
    world = World("hangs")

    looking = []
    for number in range(20):
        looking.append(asyncio.create_task(world.timed_look(number)))
        await asyncio.wait(looking, timeout=DEADLINE_S / 5)
    took_s = await asyncio.gather(*looking)

    assert sum(seconds > DEADLINE_S * 0.7 for seconds in took_s) <= 5
    await world.close()


async def test_a_healthy_tier_answers_any_number_at_once():
    world = World()
    kept = [world.record(number) for number in range(64)]
    for one in kept:
        await world.store.put(one.key, pack(one, SECRET), keep_s=60)

    found = await asyncio.gather(*(world.tiers.look_far(one.key, NAMESPACE) for one in kept))

    assert all(found)
    assert (world.tier.counts.hits, world.tier.reading) == (64, "working")
    await world.close()


async def test_a_tier_left_out_is_tried_behind_an_answer_once_after_each_growing_pause():
    world = World("refuses")
    await world.left_out()
    asked = len(world.store.asked)

    pauses = []
    for _ in range(40):
        world.clock.forward(s=1)
        before = len(world.store.asked)
        took_s = await asyncio.gather(*(world.timed_look(number) for number in range(5)))
        await until(lambda: not world.tier._running)
        pauses.append(len(world.store.asked) - before)
        assert max(took_s) < DEADLINE_S / 2

    assert [second + 1 for second, probes in enumerate(pauses) if probes] == [1, 3, 7, 15, 31]
    assert set(pauses) == {0, 1}
    assert world.tier.counts.probes == len(world.store.asked) - asked == 5
    assert world.adds_up()
    await world.close()


async def test_a_probe_that_hangs_is_the_only_one_and_delays_nobody():
    world = World("hangs")
    await world.left_out()
    world.clock.forward(s=1)

    took_s = [await world.timed_look(number) for number in range(10)]

    assert sum(took_s) < DEADLINE_S
    assert world.tier.counts.probes == 1
    await world.close()


async def test_after_a_probe_that_succeeds_and_a_trial_it_works_again():
    world = World("hangs")
    await world.left_out()
    world.store.trouble = ""
    world.clock.forward(s=1)

    await world.probe()
    on_trial = world.tier.reading
    for number in range(TRIAL):
        await world.timed_look(number)

    assert (on_trial, world.tier.reading) == ("on trial", "working")
    assert world.tier.reads.spare == FAILURES
    await world.close()


async def test_a_tier_that_answers_a_probe_but_lies_is_left_out_for_longer_and_longer():
    world = World("lies")
    await world.left_out()
    asked = len(world.store.asked)

    for _ in range(40):
        world.clock.forward(s=1)
        await world.probe()
        await world.probe()

    # After each of the probes, at 1, 3, 7, 15 and 31 s, one look-up.
    assert len(world.store.asked) - asked == 10
    assert world.tier.reads.opened == 1
    assert world.adds_up()
    await world.close()


async def test_opening_and_closing_are_told_once_each_and_never_between(caplog):
    world = World("refuses")
    with caplog.at_level(logging.WARNING, "foretold"):
        await world.left_out()
        for _ in range(40):
            world.clock.forward(s=1)
            await world.probe()
        world.store.trouble = ""
        world.clock.forward(s=30)
        for number in range(TRIAL + 1):
            await world.probe(number)

    assert [r.getMessage() for r in caplog.records] == [
        "reading the far tier fails (connection refused): the node goes on without, and tries again after 1 s and"
        " longer pauses",
        "reading the far tier works again",
    ]
    await world.close()


async def test_a_single_failure_now_and_then_leaves_nothing_out():
    world = World()

    for number in range(100):
        world.store.trouble = "" if number % 10 else "refuses"
        await world.timed_look(number)

    assert world.tier.reading == "working"
    assert (world.tier.counts.errors, world.tier.counts.skipped) == (10, 0)
    await world.close()


async def test_a_tier_that_fails_every_third_time_is_left_out():
    world = World()

    for number in range(20):
        world.store.trouble = "" if number % 3 else "refuses"
        await world.timed_look(number)

    assert world.tier.reading == "left out"
    await world.close()


async def test_a_loop_that_stood_still_is_no_failure_of_the_tier():
    world = World()
    loop = asyncio.get_running_loop()

    async def soon(name):
        came = loop.create_future()
        loop.call_later(DEADLINE_S / 10, came.set_result, None)
        await came
        await asyncio.sleep(0)

    world.store.get = soon
    looking = [asyncio.create_task(world.timed_look(number)) for number in range(FAILURES)]
    loop.call_soon(lambda: loop.call_soon(time.sleep, 2 * DEADLINE_S))
    await asyncio.gather(*looking)

    assert (world.tier.counts.misses, world.tier.counts.errors) == (FAILURES, 0)
    await world.close()


async def test_a_caller_who_leaves_is_no_failure_of_the_tier_and_counts_add_up():
    world = World("hangs")
    looking = [asyncio.create_task(world.timed_look(number)) for number in range(10)]
    await asyncio.sleep(0)

    for task in looking:
        task.cancel()
    await asyncio.gather(*looking, return_exceptions=True)

    assert world.tier.reading == "working"
    assert world.tier.counts.lookups == world.tier.counts.errors == 0
    await world.close()


@pytest.mark.parametrize("trouble", ["full", "refuses", "hangs", "has a fault"])
async def test_a_tier_that_takes_no_writes_is_left_out_for_writes_alone(trouble):
    world = World(trouble)
    for number in range(10):
        await world.put(number)
    world.store.trouble = ""
    await world.timed_look()

    counts = world.tier.counts
    assert (counts.writes, counts.write_errors, counts.dropped) == (0, FAILURES, 10 - FAILURES)
    assert (world.tier.reading, world.tier.writing) == ("working", "left out")
    await world.close()


async def test_writes_are_tried_again_after_a_pause_and_go_on_when_they_succeed():
    world = World("full")
    for number in range(FAILURES):
        await world.put(number)
    kept_while_out = world.keeping.keep(world.record(100))
    world.store.trouble = ""
    world.clock.forward(s=1)

    for number in range(TRIAL + 1):
        world.keeping.keep(world.record(number))
        await world.keeping.flush()

    assert kept_while_out is None  # in memory
    assert world.tier.counts.dropped == 1
    assert world.tier.counts.writes == TRIAL + 1
    assert world.tier.writes.standing is Standing.WORKING
    await world.close()


async def test_a_delete_that_hangs_is_told_to_whoever_deletes_in_time():
    world = World("hangs")

    with pytest.raises(StoreError, match="far tier did not delete within 0.2 s"):
        await asyncio.wait_for(world.keeping.forget("0" * 64), 5)
    await world.close()


async def test_a_delete_reaches_the_tiers_that_work_though_another_does_not():
    world = World("refuses")
    good = TroubledStore(now_ms=world.clock, name="good")
    tiers = Tiers(world.memory, [world.tier, Tier(good, deadline_s=1)], secret=SECRET, now_ms=world.clock)
    await good.put("0" * 64, b"x", keep_s=60)

    with pytest.raises(StoreError):
        await tiers.delete("0" * 64)

    assert await good.get("0" * 64) is None
    await world.close()


async def test_those_who_run_the_node_wait_for_no_tier_that_hangs():
    world = World("hangs")

    assert await asyncio.wait_for(world.tiers.by_key("0" * 64), 5) is None
    await world.close()


async def test_a_near_tier_that_is_slow_for_a_while_is_read_in_threads_until_it_is_quick_again(caplog):
    store = SlowNearStore()
    tier = Tier(store, deadline_s=DEADLINE_S, now_s=store.clock)
    store.takes_s = 0.02
    slow = 0
    with caplog.at_level(logging.WARNING, "foretold"):
        while tier.is_near:
            tier.get_now("name")
            slow += 1
        reading = tier.reading
        store.takes_s = 0.0001
        quick = 0
        while not tier.is_near:
            await tier.get("name")
            quick += 1

    assert (slow, reading) == (5, "slow")
    assert quick == 20
    assert [r.getMessage().split(" (")[0] for r in caplog.records] == [
        "the near tier is slow",
        "the near tier is quick again",
    ]
    assert tier.counts.misses == store.asked == 25
    await tier.close()


async def test_a_near_tier_that_was_slower_than_the_deadline_once_is_read_in_threads():
    store = SlowNearStore()
    store.takes_s = 2 * DEADLINE_S
    tier = Tier(store, deadline_s=DEADLINE_S, now_s=store.clock)

    tier.get_now("name")

    assert not tier.is_near
    await tier.close()


async def test_a_slow_near_tier_that_then_hangs_is_left_out_and_holds_nothing_up():
    store = SlowNearStore()
    store.takes_s = 2 * DEADLINE_S
    tier = Tier(store, deadline_s=DEADLINE_S, now_s=store.clock)
    tier.get_now("name")
    goes_on = threading.Event()
    store.get_now = lambda name: goes_on.wait(30) and None

    took_s = []
    for _ in range(20):
        began_s = time.monotonic()
        assert await tier.get("name") is None
        took_s.append(time.monotonic() - began_s)

    assert sum(seconds > DEADLINE_S / 2 for seconds in took_s) <= 5
    assert tier.reading == "left out"
    assert tier.held_bytes == 0
    goes_on.set()
    await tier.close()


async def test_a_near_tier_that_fails_at_once_is_never_left_out_and_said_to_fail(caplog):
    store = SlowNearStore()
    tier = Tier(store, deadline_s=DEADLINE_S, now_s=store.clock)
    works = store.get_now

    def fails(name):
        raise StoreError("the disk is on fire")

    store.get_now = fails
    with caplog.at_level(logging.WARNING, "foretold"):
        for _ in range(30):
            tier.get_now("name")
        failing = tier.reading
        store.get_now = works
        for _ in range(20):
            tier.get_now("name")

    assert (failing, tier.reading) == ("failing", "working")
    assert (tier.counts.errors, tier.counts.misses, tier.counts.skipped) == (30, 20, 0)
    assert len(caplog.records) == 2
