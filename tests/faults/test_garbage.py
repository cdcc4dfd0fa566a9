"""What fails is gone at once: nothing of it waits for the garbage collector, which runs rarely in a node."""

from __future__ import annotations

import asyncio
import gc

import pytest

from foretold.flights.flight import Flight
from tests.faults.invariants import enduring
from tests.faults.replies import BREAKING, ODD, PASSED_ON


@pytest.fixture
def uncollected():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(
    "fault",
    ["closes at once", "closes after the head", "closes in the body", "cuts its gzip", "a stream without [DONE]"],
    ids=str,
)
async def test_a_flight_that_failed_holds_nothing_once_it_is_forgotten(upstream, tmp_path, uncollected, fault):
    async with enduring(upstream, tmp_path) as world:
        upstream.on("m", (BREAKING | ODD | PASSED_ON)[fault])
        await asyncio.gather(*(world.ask(f"{fault} {i}", stream=i % 2 == 0) for i in range(8)))
        flights = world.node.node.flights
        flights.forget_endings()
        left = [one for one in gc.get_objects() if isinstance(one, Flight)]

    assert left == []
