from __future__ import annotations

import asyncio

from foretold.origins.local import OwnSlots
from foretold.workers.slots import EngineSlots


async def taking(slots: EngineSlots, *ticket: int) -> asyncio.Task[None]:
    task = asyncio.create_task(slots.take((ticket[0], ticket[1])))
    for _ in range(3):
        await asyncio.sleep(0)
    return task


async def test_whoever_asked_first_gets_the_next_slot():
    slots = EngineSlots(OwnSlots(1))
    first, second, third = [await taking(slots, worker, 0) for worker in (1, 2, 3)]
    slots.leave((1, 0))
    await second

    assert first.done()
    assert not third.done()
    slots.leave((2, 0))
    await third


async def test_whoever_leaves_while_it_waits_takes_nobodys_slot():
    slots = EngineSlots(OwnSlots(1))
    await taking(slots, 1, 0)
    waiting, next_one = await taking(slots, 1, 1), await taking(slots, 2, 0)
    slots.leave((1, 1))
    await asyncio.gather(waiting, return_exceptions=True)
    slots.leave((1, 0))
    await next_one

    assert waiting.cancelled()


async def test_a_dead_worker_gives_all_its_slots_back():
    slots = EngineSlots(OwnSlots(2))
    await taking(slots, 1, 0)
    await taking(slots, 1, 1)
    others = [await taking(slots, 2, number) for number in (0, 1)]
    slots.leave_all(1)
    await asyncio.gather(*others)

    slots.leave_all(1)  # harmless
