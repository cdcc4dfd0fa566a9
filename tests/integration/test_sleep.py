"""A real engine that sleeps when it is idle: what it gives back, and that the first who asks afterwards is answered."""

from __future__ import annotations

import asyncio
from pathlib import Path

from foretold.config import load
from foretold.datafolder import models_folder
from foretold.models.manifest import SMOLLM2
from foretold.models.weights import held, weights_of
from tests.library.worlds import Told
from tests.running import running
from tests.waiting import until

SETTINGS = """
[models.smollm2-135m]
context = 512
parallel = 2
sleep = "2 s"
keep_alive = "10 min"
"""
# What its process takes at all, and half of what the context of 2 × 512 tokens takes on top.
ASLEEP_BYTES = SMOLLM2.fixed_bytes + SMOLLM2.token_bytes * 512


def private_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("Anonymous:")).split()[1]) * 1024


async def test_a_sleeping_engine_gives_back_its_context_and_the_first_request_afterwards_succeeds(tmp_path):
    with held() as using:
        weights = await weights_of(load(SETTINGS), models_folder(), using=using, tell=Told())
        async with running(SETTINGS, tmp_path, weights=weights) as node:
            pool = node.assembled.models.pool
            door = node.assembled.models.asked("smollm2-135m").host.door
            assert door is not None
            for turn in range(3):
                texts = [f"Name {turn}, {n}." for n in range(1 + turn)]
                asked = (node.chat(text, model="smollm2-135m", max_tokens=2) for text in texts)
                answered = await asyncio.gather(*asked)
                assert [one.status for one in answered] == [200] * len(answered)
                await until(lambda: private_bytes(door.pid) < ASLEEP_BYTES)
                await until(lambda: pool.state_of("smollm2-135m") == "asleep")
            told = (await node.send("GET", "/v1/models/smollm2-135m")).json
            counts = pool.told()[0]["counts"]

            assert node.assembled.models.asked("smollm2-135m").host.door is door
    assert told["state"] == "asleep"
    assert (counts["loads"], counts["failures"]) == (1, 0)
