"""Tiers, files and connections so small that everything is always full: answers go on, limits hold."""

from __future__ import annotations

import asyncio
import json

from tests.fakes.upstream import Call, chat, text_for, whole
from tests.faults.invariants import enduring
from tests.faults.marked import mark

TINY = '[[tiers]]\nstore = "memory"\nlimit = "1 MiB"\n[[tiers]]\nstore = "disk"\nlimit = "4 MiB"\n'


def of_size(size: int):
    """Answers of so many bytes: the mark and dots."""

    async def reply(call: Call, writer: asyncio.StreamWriter, serial: int) -> None:
        await whole(writer, json.dumps(chat(call.json, text_for(call.json, serial) + "." * size)).encode())

    return reply


async def test_tiers_that_are_always_full_evict_and_never_exceed_their_limits(upstream, tmp_path):
    async with enduring(upstream, tmp_path, TINY) as world:
        wrongs = []
        for size in (100, 20_000, 100_000, 600_000, 2_000_000):
            upstream.on("m", of_size(size))
            for turn in range(4):
                names = [f"size {size} {turn} {i}" for i in range(4)]
                assert all(got.is_answer for got in await asyncio.gather(*map(world.ask, [*names, *names])))
                wrongs += world.adds_up()
        tiers = world.node.node.tiers
        held = [tiers.memory.held_bytes, *(tier.store.held_bytes for tier in tiers.below)]

    assert wrongs == []
    assert all(bytes_ > 0 for bytes_ in held)


async def test_bodies_that_have_no_room_together_are_told_to_come_later(upstream, tmp_path):
    """Each takes its room and gives it back, whether it is served, refused or gone."""
    settings = '[server]\nbody_limit = "64 KiB"\nbodies_together = "128 KiB"\n'
    async with enduring(upstream, tmp_path, settings, room_bytes=128 * 1024) as world:
        got = await asyncio.gather(*(world.ask(f"large {i}", spaces=50_000) for i in range(30)))
        too_large = await world.ask("too large", spaces=70_000)

    assert {one.status for one in got} == {200, 503}
    assert too_large.status == 413
    assert [one.mark for one in got if one.status == 200 and not one.is_answer] == []


async def test_one_connection_to_the_upstream_serves_all_in_turn(upstream, tmp_path):
    async with enduring(upstream, tmp_path, "connections = 1\n") as world:
        got = await asyncio.gather(*(world.ask(f"n {i}", stream=i % 2 == 0) for i in range(40)))

    assert all(one.is_answer for one in got)
    assert mark("n 1") == got[1].mark
