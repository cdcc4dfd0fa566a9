"""What processes say to each other about a flight: frames of a bounded length, each one message.

    follower   MAGIC Ask                        leader   Refused | Joined Head Chunk* (End | Failed)
    any        MAGIC Purged                     other    Done

A `Beat` may stand between any two of the leader's.  Whatever can't be read ends the connection.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from foretold.fault import Fault

MAGIC = b"FTL\x01"
LONGEST_FRAME_BYTES = 2**20
LONGEST_CHUNK_BYTES = 256 * 1024


class Broken(Exception):
    """What came is no frame of this version."""


class Ask(msgspec.Struct, tag="ask", frozen=True):
    """May I have the answer for this key, of this namespace, with token counts if `usage`?"""

    key: str
    namespace: str
    usage: bool


class Purged(msgspec.Struct, tag="purged", frozen=True):
    """A key was purged, or some tag."""

    key: str | None


class Done(msgspec.Struct, tag="done", frozen=True):
    pass


class Refused(msgspec.Struct, tag="refused", frozen=True):
    """`may_change`: whoever asks again may have better luck."""

    may_change: bool


class Joined(msgspec.Struct, tag="joined", frozen=True):
    """The tags of what will land, as they were at take-off."""

    tags: dict[str, str]
    tells_usage: bool


class Beat(msgspec.Struct, tag="beat", frozen=True):
    pass


class Head(msgspec.Struct, tag="head", frozen=True):
    status: int
    headers: tuple[tuple[str, str], ...]
    length: int | None
    is_fallback: bool
    is_admitted: bool


class Chunk(msgspec.Struct, tag="chunk", frozen=True):
    body: bytes


class End(msgspec.Struct, tag="end", frozen=True):
    """Why the answer was not kept, or the sealed head of its record if that is at hand."""

    why_not_kept: str | None
    record_head: bytes


class Failed(msgspec.Struct, tag="failed", frozen=True):
    fault: Fault


Frame = Ask | Purged | Done | Refused | Joined | Beat | Head | Chunk | End | Failed

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Frame)


def written(frame: Frame) -> bytes:
    body = _encoder.encode(frame)
    return len(body).to_bytes(4, "big") + body


async def read(reader: asyncio.StreamReader) -> Frame:
    """Raises Broken, and IncompleteReadError at the end."""
    length = int.from_bytes(await reader.readexactly(4), "big")
    if length > LONGEST_FRAME_BYTES:
        raise Broken(f"a frame of {length} bytes")
    try:
        frame: Frame = _decoder.decode(await reader.readexactly(length))
    except msgspec.DecodeError as e:
        raise Broken(str(e)) from None
    return frame


async def read_first(reader: asyncio.StreamReader) -> Frame:
    if await reader.readexactly(len(MAGIC)) != MAGIC:
        raise Broken("another version")
    return await read(reader)
