"""Clocks that jump and wobble: no answer is fresh beyond its time, no age is below nothing, nobody hangs."""

from __future__ import annotations

import asyncio
import random
import re

import pytest

from tests.clock import Clock
from tests.faults.invariants import World, enduring
from tests.waiting import until

FRESH_S = 600
STALE_S = 300
# What clocks may differ before an answer counts as made in the future (rule F1).
ALLOWANCE_S = 5
SETTINGS = f'[cache]\nfresh = "{FRESH_S}s"\nstale_while_revalidate = "{STALE_S}s"\nstale_if_error = "{STALE_S}s"\n'
DAY_S, YEAR_S = 86_400, 365 * 86_400


async def asked_at(world: World, clock: Clock, made_ms: dict[str, int], name: str) -> list[str]:
    """Asks, and what is wrong with how fresh the answer is said to be; `made_ms` is when each was last made.

    Of an answer that seems to come from the future nobody knows the age: it is stale, and made anew behind its caller.
    """
    refreshing = world.node.node.flying.refreshing
    refreshed = refreshing.refreshed
    got = await world.ask(name)
    assert got.is_answer
    if got.is_hit and made_ms[name] - clock.now_ms > ALLOWANCE_S * 1000:
        assert "; hit; ttl=0;" in got.headers["cache-status"]
        assert got.headers["age"] == "0"
        await until(lambda: refreshing.refreshed > refreshed)
        made_ms[name] = clock.now_ms
        return []
    if not got.is_hit:
        made_ms[name] = clock.now_ms
        return []
    age_s = (clock.now_ms - made_ms[name]) / 1000
    told_age_s = int(got.headers["age"])
    ttl = re.search(r"ttl=(-?\d+)", got.headers["cache-status"])
    assert ttl is not None
    found = []
    if age_s >= FRESH_S + STALE_S:
        found.append(f"{name} was a hit at an age of {age_s:g} s")
    if told_age_s != max(0, int(age_s)):
        found.append(f"{name} of {age_s:g} s was told as {told_age_s} s old")
    if int(ttl.group(1)) != FRESH_S - told_age_s:
        found.append(f"{name} of {age_s:g} s has {ttl.group(0)}")
    return found


@pytest.mark.parametrize("jump_s", [YEAR_S, -DAY_S, -YEAR_S, FRESH_S + STALE_S, -ALLOWANCE_S - 1], ids=str)
async def test_after_a_jump_nothing_is_fresh_that_was_not_made_lately(upstream, tmp_path, jump_s):
    clock, made_ms = Clock(), {}
    async with enduring(upstream, tmp_path, SETTINGS, now_ms=clock) as world:
        before = [wrong for i in range(5) for wrong in await asked_at(world, clock, made_ms, f"n {i}")]
        clock.forward(s=jump_s)
        jumped_ms = clock.now_ms
        after = [wrong for i in range(5) for wrong in await asked_at(world, clock, made_ms, f"n {i}")]
        again = [wrong for i in range(5) for wrong in await asked_at(world, clock, made_ms, f"n {i}")]

    assert before + after + again == []
    assert all(at_ms == jumped_ms for at_ms in made_ms.values())


async def test_a_clock_set_back_again_and_again_makes_no_answer_live_for_ever(upstream, tmp_path):
    clock, made_ms, wrongs = Clock(), {}, []
    async with enduring(upstream, tmp_path, SETTINGS, now_ms=clock) as world:
        for jump_s in (YEAR_S, -DAY_S, DAY_S, -YEAR_S, 3600, -3600, YEAR_S):
            await world.node.node.keeping.flush()  # else an older record may be on the disk yet, and come back
            clock.forward(s=jump_s)
            for name in ("one", "two", "one"):
                wrongs += await asked_at(world, clock, made_ms, name)

    assert wrongs == []


async def test_a_clock_that_wobbles_by_seconds_loses_no_hit_and_tells_no_lie(upstream, tmp_path):
    """As NTP makes it: some seconds to and fro, while time goes on."""
    clock, chance, made_ms, wrongs = Clock(), random.Random(9), {}, []
    async with enduring(upstream, tmp_path, SETTINGS, now_ms=clock) as world:
        base_ms = clock.now_ms
        for turn in range(300):
            clock.now_ms = base_ms + turn * 500 + chance.randrange(-2000, 2001)
            wrongs += await asked_at(world, clock, made_ms, f"n {turn % 10}")
        calls = len(upstream.calls)

    assert wrongs == []
    assert calls <= 10 + 2


async def test_the_clock_jumps_while_answers_are_on_their_way(upstream, tmp_path):
    clock, chance = Clock(), random.Random(4)
    async with enduring(upstream, tmp_path, SETTINGS, now_ms=clock) as world:
        for turn in range(40):
            asking = [asyncio.create_task(world.ask(f"n {turn} {i % 3}", stream=i % 2 == 0)) for i in range(6)]
            await asyncio.sleep(0)
            clock.forward(s=chance.choice([YEAR_S, -YEAR_S, 1, -1, 3600]))
            assert all(got.is_answer for got in await asyncio.gather(*asking))
