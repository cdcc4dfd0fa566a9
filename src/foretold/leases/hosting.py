"""The leader's side: one follower at a time of one of our flights, with what has come at once and the rest live.

A follower is a rider like any other: the flight goes on for it, waits for it if it is slow, and puts it off if it reads
nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from foretold.errors import ForetoldError
from foretold.fault import fault_of
from foretold.flights.flight import Flight, Ride
from foretold.leases.frames import (
    LONGEST_CHUNK_BYTES,
    Beat,
    Chunk,
    End,
    Failed,
    Frame,
    Head,
    Joined,
    written,
)

BEAT_S = 1.0
# A follower that takes nothing for so long is let go.
PATIENCE_S = 30.0


def can_be_followed(flight: Flight, *, usage: bool) -> bool:
    """Whether another process may have its answer: while it flies, and until its record is where all can find it."""
    if usage and not flight.tells_usage:
        return False
    has_landed = flight.landed_whole and flight.why_not_kept is None and flight.landing.is_open()
    return flight.can_be_joined or has_landed


async def host(
    flight: Flight,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    *,
    tags: dict[str, str],
    record_head: Callable[[Flight], bytes],
) -> None:
    """Returns when the follower has all of it, or has left, or takes nothing more."""
    ride = flight.board()
    try:
        writer.write(written(Joined(tags, flight.tells_usage)))
        telling = asyncio.create_task(_tell(ride, writer, record_head))
        tasks = [telling, asyncio.create_task(_until_gone(reader)), asyncio.create_task(_beat(writer))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if telling.done() and not telling.cancelled() and isinstance(telling.exception(), Exception):
            telling.result()
    finally:
        await ride.leave()


async def _tell(ride: Ride, writer: asyncio.StreamWriter, record_head: Callable[[Flight], bytes]) -> None:
    flight = ride.flight
    try:
        incoming = await ride.head()
        head = Head(
            incoming.status,
            tuple(incoming.headers),
            incoming.length,
            incoming.is_fallback,
            flight.landing.admits(incoming),
        )
        await _send(head, writer)
        async for chunk in ride.chunks():
            for at in range(0, len(chunk), LONGEST_CHUNK_BYTES):
                await _send(Chunk(chunk[at : at + LONGEST_CHUNK_BYTES]), writer)
        kept = flight.landed_whole and flight.why_not_kept is None
        await _send(End(flight.why_not_kept, record_head(flight) if kept else b""), writer)
    except ForetoldError as error:
        if flight.task.cancelling():
            return  # this process ends: the connection's end says so, and the follower flies anew
        await _send(Failed(fault_of(error)), writer)


async def _send(frame: Frame, writer: asyncio.StreamWriter) -> None:
    writer.write(written(frame))
    async with asyncio.timeout(PATIENCE_S):
        await writer.drain()


async def _until_gone(reader: asyncio.StreamReader) -> None:
    """A follower says nothing after its question: any byte is a fault, and the end is its leave."""
    with contextlib.suppress(OSError):
        await reader.read(1)


async def _beat(writer: asyncio.StreamWriter) -> None:
    while True:
        await asyncio.sleep(BEAT_S)
        writer.write(written(Beat()))
