"""Whatever an upstream does wrong, the seven rules of tests.faults.invariants hold."""

from __future__ import annotations

import asyncio

import pytest

from tests.fakes.upstream import FakeUpstream, answer
from tests.faults.invariants import SHORT, World, enduring
from tests.faults.replies import BREAKING, ODD, PASSED_ON


async def asked_by_several(world: World, name: str) -> list:
    """The same question whole, streamed, twice at once, so that flights are joined; and another one."""
    return await asyncio.gather(
        world.ask(name), world.ask(name, stream=True), world.ask(name), world.ask(f"{name} besides", stream=True)
    )


# Ended by a time-out as others are, or at length: seconds each.
LONG_ONES = {
    "hangs in the head",
    "drips without an end",
    "never ends a line of its head",
    "never ends an event",
    "never stops saying 100",
    "says a longer length and stays",
    "sends a gzip bomb",
}


@pytest.mark.parametrize(
    "fault", [pytest.param(name, marks=pytest.mark.slow if name in LONG_ONES else ()) for name in BREAKING], ids=str
)
async def test_an_answer_that_breaks_is_nobodys_and_never_kept(upstream, tmp_path, fault):
    async with enduring(upstream, tmp_path, timeouts=SHORT) as world:
        upstream.on("m", BREAKING[fault])
        answered = [got.is_answer or got.is_hit for got in await asked_by_several(world, fault)]
        answered.append((await world.ask(fault)).is_hit)

    assert not any(answered)


@pytest.mark.parametrize("fault", PASSED_ON, ids=str)
async def test_an_answer_that_is_no_good_one_goes_through_and_is_never_kept(upstream, tmp_path, fault):
    async with enduring(upstream, tmp_path) as world:
        upstream.on("m", PASSED_ON[fault])
        first = await asked_by_several(world, fault)
        again = await world.ask(fault)

    assert [got for got in [*first, again] if got.is_hit or not got.is_whole] == []


@pytest.mark.parametrize("oddity", ODD, ids=str)
async def test_an_odd_answer_is_right_or_refused(upstream, tmp_path, oddity):
    async with enduring(upstream, tmp_path) as world:
        upstream.on("m", ODD[oddity])
        first = await asked_by_several(world, oddity)

    assert [got for got in first if not got.is_whole] == []


async def test_an_upstream_that_refuses_is_asked_again_once_it_is_back(tmp_path):
    async with FakeUpstream() as upstream, enduring(upstream, tmp_path) as world:
        await upstream.refuse()
        refused = await asked_by_several(world, "refused")
        await upstream.accept()

    assert {got.status for got in refused} == {502}


async def test_a_fault_of_one_model_is_no_fault_of_another(upstream, tmp_path):
    upstream.on("good", answer)
    async with enduring(upstream, tmp_path, timeouts=SHORT) as world:
        for name in ("hangs in the body", "never ends its stream", "says a longer length and stays"):
            upstream.on("m", BREAKING[name])
            broken = [asyncio.create_task(world.ask(f"{name} {i}", stream=i % 2 == 0)) for i in range(10)]
            for i in range(20):
                await world.answers_again(f"{name} good {i}", model="good")
            await asyncio.gather(*broken)
            broken.clear()
