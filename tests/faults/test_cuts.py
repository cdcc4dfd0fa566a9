"""An answer cut at any of its bytes, by a close or a reset, is an error and never half an answer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable

import pytest

from tests.fakes.upstream import Call, FakeUpstream
from tests.faults.invariants import World, enduring
from tests.faults.marked import reset
from tests.faults.replies import answer_bytes, fin

AT_ONCE = 40
# What reads the end of a body may answer before the last byte of its framing; there it is all of the answer.
ENDS = {"a close": fin, "a reset": reset}


async def length_of(world: World, upstream: FakeUpstream, *, stream: bool) -> int:
    """Bytes of an answer to a question like those of `cut`; the number of a call may be longer then, by some digits."""
    lengths: list[int] = []

    async def reply(call: Call, writer: asyncio.StreamWriter, serial: int) -> None:
        sent = answer_bytes(call, serial)
        lengths.append(len(sent))
        writer.write(sent)

    upstream.on("m", reply)
    await world.ask("cut to 1000", stream=stream)  # a name as long as theirs, and none of them
    return lengths[0]


async def cut(
    world: World, upstream: FakeUpstream, places: Iterable[int], ends: Callable, *, stream: bool
) -> list[str]:
    """What is wrong: an answer cut before its last byte that looks whole, or a question without an end."""
    turns = asyncio.Semaphore(AT_ONCE)
    at: dict[str, int] = {}

    async def reply(call: Call, writer: asyncio.StreamWriter, serial: int) -> None:
        writer.write(answer_bytes(call, 1)[: at[call.json["messages"][-1]["content"]]])
        await writer.drain()
        ends(writer)

    async def one(place: int) -> str | None:
        async with turns:
            name = f"cut at {place}"
            at[f"<<cut-at-{place}>>"] = place
            got = await world.ask(name, stream=stream)
        return f"cut at {place}, it was taken for an answer: {got}" if got.is_answer or got.is_hit else None

    upstream.on("m", reply)
    return [wrong for wrong in await asyncio.gather(*map(one, places)) if wrong is not None]


@pytest.mark.parametrize("ends", ENDS, ids=str)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_an_answer_cut_at_one_of_its_bytes_is_never_taken_for_whole(upstream, tmp_path, stream, ends):
    """At every border between its parts, on both sides, and at some bytes by chance."""
    async with enduring(upstream, tmp_path) as world:
        length = await length_of(world, upstream, stream=stream)
        borders = {0, 1, 8, 9, 12, 15, 17, 40, 90, 91, 92, 93, 94, 95, 96, length // 2, *range(length - 16, length - 2)}
        places = borders | set(random.Random(5).sample(range(length - 2), 30))

        wrongs = await cut(world, upstream, sorted(places), ENDS[ends], stream=stream)

    assert wrongs == []


@pytest.mark.slow
@pytest.mark.parametrize("ends", ENDS, ids=str)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_an_answer_cut_at_any_of_its_bytes_is_never_taken_for_whole(upstream, tmp_path, stream, ends):
    async with enduring(upstream, tmp_path) as world:
        length = await length_of(world, upstream, stream=stream)

        wrongs = await cut(world, upstream, range(length - 2), ENDS[ends], stream=stream)

    assert wrongs == []
