"""Rounds of callers who share a question, leave at random and read at their own pace, before an upstream that fails at random.

All chance is of a seed.  Chance counts turns of the event loop and bytes, never time, so that rounds are short.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter

from tests.fakes.upstream import Call
from tests.faults.invariants import World
from tests.faults.marked import BOUND_S, Got, connect, mark, question, read, reset
from tests.faults.replies import PASSED_ON, answer_bytes, cut_at, fin, silent, told

# Rounds under way together; most of them wait.
AT_ONCE = 64
# A question comes back in some rounds soon after, so that some are hits, and some come back to what failed.
ROUNDS_EACH = 3


class RandomUpstream:
    """Mostly answers, piece by piece; else breaks off, fails, stalls or says nonsense."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    async def reply(self, call: Call, writer: asyncio.StreamWriter, serial: int) -> None:
        chance = self._chance
        fate = chance.random()
        if fate < 0.72:
            await _in_pieces(chance, answer_bytes(call, serial), writer)
        elif fate < 0.84:
            await cut_at(chance.random(), chance.choice([fin, reset]))(call, writer, serial)
        elif fate < 0.93:
            await told(chance.choice([400, 429, 500, 503]))(call, writer, serial)
        elif fate < 0.99:
            await chance.choice(list(PASSED_ON.values()))(call, writer, serial)
        else:
            await silent(call, writer, serial)


async def _in_pieces(chance: random.Random, sent: bytes, writer: asyncio.StreamWriter) -> None:
    at = 0
    while at < len(sent) and not writer.is_closing():
        size = chance.choice([1, 50, 300, 2000])
        writer.write(sent[at : at + size])
        await writer.drain()
        await turns(chance.randrange(6))
        at += size


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def run_rounds(world: World, count: int, *, seed: int) -> Counter[str]:
    """How callers of so many rounds ended."""
    world.upstream.on("m", RandomUpstream(seed).reply)
    ended: Counter[str] = Counter()
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            ended.update(await one_round(world, number, random.Random(f"{seed}-{number}")))

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    return ended


async def one_round(world: World, number: int, chance: random.Random) -> list[str]:
    """Some callers of one question, and perhaps one of an earlier one."""
    names = [f"question {number // ROUNDS_EACH}"] * chance.choice([1, 2, 2, 3, 3, 4, 5])
    if chance.random() < 0.2:
        names.append(f"question {chance.randrange(number // ROUNDS_EACH + 1)}")
    return await asyncio.gather(*(caller(world, name, random.Random(chance.random())) for name in names))


async def caller(world: World, name: str, chance: random.Random) -> str:
    """Asks, and stays, reads slowly or leaves; one word of how it ended."""
    await turns(chance.randrange(30))
    fate = chance.random()
    leaves_at_byte = chance.randrange(1500) if fate < 0.15 else None
    leaves_at_turn = chance.randrange(60) if 0.15 <= fate < 0.3 else None
    slowly = 0.3 <= fate < 0.4
    sent = question(mark(name), stream=chance.random() < 0.5)
    async with asyncio.timeout(BOUND_S):
        reader, writer = await connect(world.node.url)
        try:
            if leaves_at_turn is not None:
                writer.write(sent[: chance.choice([0, 40, len(sent) - 5, len(sent), len(sent)])])
                await turns(leaves_at_turn)
                chance.choice([reset, fin])(writer)
                return "left"
            writer.write(sent)
            came, is_all = await _read(reader, leaves_at_byte, slowly, chance)
            if not is_all:
                chance.choice([reset, fin])(writer)
            return _word(world.noted(read(mark(name), came))) if is_all else "left"
        finally:
            writer.transport.abort()


async def _read(
    reader: asyncio.StreamReader, leaves_at_byte: int | None, slowly: bool, chance: random.Random
) -> tuple[bytes, bool]:
    """What came, and whether it is all."""
    came = b""
    while leaves_at_byte is None or len(came) <= leaves_at_byte:
        try:
            piece = await reader.read(chance.choice([1, 20, 200]) if slowly else 2**16)
        except ConnectionError:
            piece = b""
        if not piece:
            return came, True
        came += piece
        await turns(chance.randrange(8) if slowly else 0)
    return came, False


def _word(got: Got) -> str:
    if got.is_hit:
        return "hit"
    if got.is_answer:
        return "answered"
    return "cut" if not got.is_whole else "failed" if (got.status or 0) >= 400 else "odd"
