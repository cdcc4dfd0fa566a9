"""Thousands of rounds in which callers and an upstream fail at random: nobody hangs, nobody gets another's byte."""

from __future__ import annotations

import pytest

from tests.faults.invariants import SHORT, enduring
from tests.faults.rounds import run_rounds

SETTINGS = '[[tiers]]\nstore = "memory"\nlimit = "1 MiB"\n[[tiers]]\nstore = "disk"\nlimit = "64 MiB"\n'


async def test_five_thousand_rounds_of_leaving_stalling_and_failing_do_no_harm(upstream, tmp_path):
    async with enduring(upstream, tmp_path, SETTINGS, timeouts=SHORT) as world:
        ended = await run_rounds(world, 5000, seed=2026)
        how = {how.value: counts.count for how, counts in world.node.node.counters.how.items()}
        disk = world.node.node.tiers.below[0].counts

    # Else it would prove nothing: every kind of end came, and flights were joined and left.
    assert min(ended[word] for word in ("hit", "answered", "cut", "failed", "odd", "left")) >= 100, ended
    assert min(how[word] for word in ("hit", "miss", "collapsed", "error")) >= 500, how
    assert disk.writes >= 300
    assert disk.hits >= 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
async def test_many_more_rounds_do_no_harm(upstream, tmp_path, seed):
    async with enduring(upstream, tmp_path, SETTINGS, timeouts=SHORT) as world:
        await run_rounds(world, 5000, seed=seed)
