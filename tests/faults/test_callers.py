"""Callers that vanish, stall or fall silent at any stage take nothing from others and leave nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.fakes.upstream import Call, begin_stream, send_chunk
from tests.faults.invariants import World, enduring
from tests.faults.marked import connect, mark, question, read, read_to_end, reset
from tests.faults.replies import events

LIMITS = '[server]\nhead_timeout = "500ms"\nbody_timeout = "500ms"\nwrite_timeout = "500ms"\nkeep_alive = "500ms"\n'


def closes(writer: asyncio.StreamWriter) -> None:
    writer.close()


def shuts_its_side(writer: asyncio.StreamWriter) -> None:
    writer.write_eof()


WAYS: dict[str, Callable[[asyncio.StreamWriter], None]] = {"closes": closes, "resets": reset, "shuts": shuts_its_side}


class Gate:
    """An upstream that waits for the test before the head, and before the rest of a stream."""

    def __init__(self) -> None:
        self.head = asyncio.Event()
        self.rest = asyncio.Event()

    async def reply(self, call: Call, writer: asyncio.StreamWriter, serial: int) -> None:
        await first_of(self.head, call.cut)
        sent = events(call, serial)
        await begin_stream(writer)
        for i, event in enumerate(sent):
            if i == 3:
                await first_of(self.rest, call.cut)
            await send_chunk(writer, event)
        writer.write(b"0\r\n\r\n")


async def first_of(*happens: asyncio.Event) -> None:
    waiting = [asyncio.create_task(event.wait()) for event in happens]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


Stage = Callable[[World, str, Gate, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def once_connected(world, name, gate, reader, writer):
    return None


async def within_the_head(world, name, gate, reader, writer):
    writer.write(question(mark(name))[:30])


async def after_the_head(world, name, gate, reader, writer):
    writer.write(question(mark(name)).partition(b"\r\n\r\n")[0] + b"\r\n\r\n")


async def within_the_body(world, name, gate, reader, writer):
    writer.write(question(mark(name))[:-10])


async def while_it_waits(world, name, gate, reader, writer):
    calls = len(world.upstream.calls)
    writer.write(question(mark(name), stream=True))
    await world.upstream.called(calls + 1)


async def after_the_first_byte(world, name, gate, reader, writer):
    gate.head.set()
    writer.write(question(mark(name), stream=True))
    await reader.readexactly(1)


async def in_mid_stream(world, name, gate, reader, writer):
    gate.head.set()
    writer.write(question(mark(name), stream=True))
    await reader.readuntil(b"You ")


STAGES: list[Stage] = [
    once_connected, within_the_head, after_the_head, within_the_body, while_it_waits, after_the_first_byte, in_mid_stream
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=str)
async def test_a_caller_that_vanishes_alone_leaves_nothing_behind(upstream, tmp_path, way):
    async with enduring(upstream, tmp_path, LIMITS) as world:
        for stage in STAGES:
            gate = Gate()
            upstream.on("m", gate.reply)
            for turn in range(3):
                name = f"{stage.__name__} {turn}"
                reader, writer = await connect(world.node.url)
                await stage(world, name, gate, reader, writer)
                WAYS[way](writer)
                if way == "shuts":
                    world.noted(read(mark(name), await asyncio.wait_for(read_to_end(reader), 10)))
                    writer.transport.abort()


@pytest.mark.parametrize("way", WAYS, ids=str)
async def test_a_caller_that_vanishes_from_a_flight_takes_nothing_from_the_others(upstream, tmp_path, way):
    got = []
    async with enduring(upstream, tmp_path, LIMITS) as world:
        for stage in STAGES:
            name, gate, calls = stage.__name__, Gate(), len(upstream.calls)
            upstream.on("m", gate.reply)
            reader, writer = await connect(world.node.url)
            await stage(world, name, gate, reader, writer)
            others = [asyncio.create_task(world.ask(name, stream=i % 2 == 0)) for i in range(6)]
            await upstream.called(calls + 1)
            WAYS[way](writer)
            gate.head.set()
            gate.rest.set()
            got += await asyncio.gather(*others)
            writer.transport.abort()

    assert all(one.is_answer for one in got)


async def test_callers_that_read_nothing_are_dropped_and_the_others_get_all(upstream, tmp_path):
    async def long(call, writer, serial):
        sent = events(call, serial)
        filler = b'data: {"id":"x","choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n' % (b"." * 8000)
        await begin_stream(writer)
        for event in [*sent[:-3], *[filler] * 500, *sent[-3:]]:
            await send_chunk(writer, event)
        writer.write(b"0\r\n\r\n")

    async with enduring(upstream, tmp_path, LIMITS) as world:
        upstream.on("m", long)
        stalled = []
        for turn in range(4):
            _, writer = await connect(world.node.url)
            writer.transport.pause_reading()
            writer.write(question(mark(f"long {turn}"), stream=True))
            stalled.append(writer)
        answered = [
            got.is_answer for got in await asyncio.gather(*(world.ask(f"long {i}", stream=True) for i in range(4)))
        ]
        for writer in stalled:
            writer.transport.abort()

    assert answered == [True] * 4


async def test_silent_and_half_closed_connections_end_by_themselves(upstream, tmp_path):
    async with enduring(upstream, tmp_path, LIMITS) as world:
        pairs = [await connect(world.node.url) for _ in range(40)]
        for _, writer in pairs[20:]:
            writer.write_eof()
        came = await asyncio.wait_for(asyncio.gather(*(read_to_end(reader) for reader, _ in pairs)), 20)
        for _, writer in pairs:
            writer.transport.abort()

    assert all(answer == b"" or answer.startswith(b"HTTP/1.1 408 ") for answer in came)
