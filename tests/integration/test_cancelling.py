"""Thousands of callers who leave: no foreign answer, no lost connection, nothing left behind."""

from __future__ import annotations

import asyncio
import random

from tests.fakes.upstream import chat, chunks_of, stream, text_for
from tests.running import in_front_of, running
from tests.waiting import until


async def test_a_thousand_cancelled_calls_leave_every_connection_usable(upstream, tmp_path):
    rng = random.Random(7)

    async def dawdles(call, writer, serial):
        async def between(i):
            await asyncio.wait([asyncio.ensure_future(call.cut.wait())], timeout=rng.random() / 200)

        await stream(writer, chunks_of(chat(call.json, text_for(call.json, serial)), usage=True), between=between)

    upstream.on("m", dawdles)
    settings = in_front_of(upstream.url, "connections = 8\n")
    async with running(settings, tmp_path) as node:
        for _ in range(50):
            asking = [
                asyncio.create_task(node.chat(f"mark {rng.randrange(10**9)}", stream=rng.random() < 0.5))
                for _ in range(20)
            ]
            await asyncio.wait(asking, timeout=rng.random() / 50)
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        await until(lambda: len(node.node.flights) == 0)
        after = await asyncio.gather(*(node.chat(f"after {i}", stream=i % 2 == 0) for i in range(16)))
        counted = await node.stats()

    assert [a.text.startswith(f"You said 'after {i}'") for i, a in enumerate(after)] == [True] * 16
    assert counted["received"] == sum(counted["how"].values())


async def test_every_answer_repeats_its_callers_own_marker_whoever_leaves(upstream, tmp_path):
    rng = random.Random(11)
    async with running(in_front_of(upstream.url), tmp_path) as node:

        async def caller(number: int) -> None:
            for turn in range(5):
                marker = f"mark-{number % 20}-{turn}"
                asking = asyncio.create_task(node.chat(marker, stream=rng.random() < 0.5))
                if rng.random() < 0.3:
                    await asyncio.wait([asking], timeout=rng.random() / 100)
                    asking.cancel()
                    await asyncio.gather(asking, return_exceptions=True)
                    continue
                assert (await asking).text.startswith(f"You said '{marker}'.")

        await asyncio.gather(*(caller(number) for number in range(60)))
        await until(lambda: len(node.node.flights) == 0)
        counted = await node.stats()

    assert counted["received"] == sum(counted["how"].values())
    assert counted["corrupt"] == 0
