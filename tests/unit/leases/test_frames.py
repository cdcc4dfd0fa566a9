from __future__ import annotations

import asyncio

import pytest

from foretold.errors import BadControl, LeaderLost, OriginTimeout
from foretold.fault import error_of, fault_of
from foretold.leases import frames
from foretold.leases.frames import Ask, Beat, Broken, Chunk, Done, End, Failed, Head, Joined, Purged, Refused

ALL = [
    Ask("k", "n", True),
    Purged(None),
    Done(),
    Refused(may_change=False),
    Joined({"*": "1"}, False),
    Beat(),
    Head(200, (("content-type", "a\xff"),), None, False, True),
    Chunk(b"\0\xff"),
    End(None, b"head"),
    Failed(fault_of(OriginTimeout("too slow"))),
]


def reader_of(data: bytes) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return reader


async def test_each_frame_is_read_as_it_was_written():
    reader = reader_of(b"".join(frames.written(frame) for frame in ALL))

    assert [await frames.read(reader) for _ in ALL] == ALL


@pytest.mark.parametrize(
    "data",
    [
        (frames.LONGEST_FRAME_BYTES + 1).to_bytes(4, "big"),
        b"\0\0\0\1\xc1",
        b"\0\0\0\1\x80",
        frames.written(Chunk(b"x")).replace(b"chunk", b"chump"),
    ],
    ids=["too long", "no message", "no kind", "unknown kind"],
)
async def test_what_is_no_frame_is_broken(data):
    with pytest.raises(Broken):
        await frames.read(reader_of(data))


async def test_half_a_frame_is_an_end():
    with pytest.raises(asyncio.IncompleteReadError):
        await frames.read(reader_of(frames.written(ALL[0])[:-1]))


async def test_another_version_is_broken():
    with pytest.raises(Broken):
        await frames.read_first(reader_of(b"FTL\x02" + frames.written(ALL[0])))


def test_the_longest_chunk_fits_a_frame():
    assert len(frames.written(Chunk(bytes(frames.LONGEST_CHUNK_BYTES)))) < frames.LONGEST_FRAME_BYTES


@pytest.mark.parametrize(
    "error", [OriginTimeout("too slow"), BadControl("no", param="ttl", code="odd", status=499), LeaderLost("gone")]
)
def test_an_error_is_the_same_in_another_process(error):
    other = error_of(fault_of(error))

    assert type(other) is type(error)
    assert str(other) == str(error)
    assert vars(other) == vars(error)


def test_an_error_of_an_unknown_kind_is_told_as_a_fault_of_ours():
    class Odd(OriginTimeout):
        pass

    assert str(error_of(fault_of(Odd("what it was")))) == "what it was"
