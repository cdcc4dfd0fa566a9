"""A disk that is full, broken, read-only or slow: writes are dropped and counted, reads go on, nothing is wrong."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from foretold.ports import Put
from foretold.stores.disk import DiskStore
from tests.faults.strace import traced
from tests.faults.trouble_program import LIMIT_BYTES, value

PROGRAM = "tests.faults.trouble_program"
PUTS = 48
CALLS = ("pwrite64", "write", "writev", "fdatasync", "fsync", "rename", "unlink", "ftruncate", "fallocate", "mkdir")
BLOCKS = ("pwrite64", "fdatasync", "fsync", "write", "rename")


async def under(folder: Path, *injections: str) -> Any:
    """What the program tells that ran under these faults."""
    options = [word for injection in injections for word in ("-e", f"inject={injection}")]
    code, out = await traced("-e", f"trace={','.join(CALLS)}", *options, folder=folder, program=PROGRAM)
    assert code == 0, f"under {injections} it ended with {code}"
    return json.loads(out)


def wrong(told: Any) -> list[str]:
    found = []
    if told["wrong"]:
        found.append(f"{told['wrong']} wrong values")
    if told["writes"] + told["write_errors"] + told["dropped"] != PUTS:
        found.append(f"{told['writes']} writes, {told['write_errors']} errors, {told['dropped']} dropped of {PUTS}")
    if not told["adds_up"]:
        found.append("look-ups don't add up")
    return found


async def filled(folder: Path) -> None:
    """What the program would write in its first turn is there already."""
    store = DiskStore(folder, LIMIT_BYTES, now_ms=lambda: time.time_ns() // 10**6)
    names = [f"{kind}{i}" for kind in ("small", "large") for i in range(4)]
    assert await store.put_many([Put(name, value(name, 0), 3600) for name in names]) == 0
    await store.close()


async def test_without_faults_all_is_written(tmp_path):
    told = await under(tmp_path)

    assert wrong(told) == []
    assert (told["writes"], told["last"], told["told"]) == (PUTS, 8, [])


async def test_on_a_full_disk_every_write_is_counted_and_what_was_kept_is_read(tmp_path):
    await filled(tmp_path)

    told = await under(tmp_path, *(f"{call}:error=ENOSPC:when=1+" for call in ("pwrite64", "writev", "write")))

    assert wrong(told) == []
    assert told["writes"] == 0
    assert told["found"] >= PUTS
    assert not told["set_aside"]


async def test_when_there_is_room_again_it_writes_again(tmp_path):
    told = await under(tmp_path, "writev:error=ENOSPC:when=2..4")

    assert wrong(told) == []
    assert told["write_errors"] > 0
    assert told["last"] == 8


async def test_on_a_disk_gone_read_only_what_was_kept_is_read(tmp_path):
    await filled(tmp_path)

    told = await under(tmp_path, *(f"{call}:error=EROFS:when=1+" for call in ("pwrite64", "writev", "write", "unlink")))

    assert wrong(told) == []
    assert told["writes"] == 0
    assert told["found"] >= PUTS


@pytest.mark.parametrize("call", BLOCKS)
async def test_one_failed_call_fails_at_most_its_batch_and_the_store_goes_on(tmp_path, call):
    async def once(number: int) -> list[str]:
        folder = tmp_path / str(number)
        await filled(folder)
        told = await under(folder, f"{call}:error=EIO:when={number}")
        found = wrong(told)
        if told["last"] != 8 and number < 6:
            found.append(f"{told['last']} of the last 8 are there")
        if told["set_aside"]:
            found.append("it was set aside")
        if len([line for line in told["told"] if "opened anew" in line]) > 1:
            found.append("it was opened anew more than once")
        return [f"{call} {number}: {line}" for line in found]

    assert [line for lines in await asyncio.gather(*map(once, range(1, 6))) for line in lines] == []


@pytest.mark.slow
@pytest.mark.parametrize("error", ["EIO", "ENOSPC", "EROFS"])
@pytest.mark.parametrize("call", CALLS)
async def test_any_failed_call_leaves_nothing_wrong(tmp_path, call, error):
    """Or the store can't be opened, and says so: then the next start finds all that was kept."""
    found = []
    for number in range(1, 25):
        folder = tmp_path / str(number)
        await filled(folder)
        told = await under(folder, f"{call}:error={error}:when={number}")
        if "refused" in told:
            assert "can't be" in told["refused"]
            told = await under(folder)
            assert told["found"] >= PUTS
        found += [f"{number}: {line}" for line in wrong(told)]

    assert found == []


async def test_a_root_that_can_never_be_written_leaves_a_store_that_is_read(tmp_path):
    """LMDB panics then, reads included, until it is opened anew."""
    await filled(tmp_path)

    told = await under(tmp_path, "pwrite64:error=EIO:when=1+")

    assert wrong(told) == []
    assert told["found"] >= PUTS - 8
    assert told["told"][-1] == "the disk can't be written: that is tried again in a while"
    assert not told["set_aside"]


async def test_a_sync_that_hangs_keeps_no_read_and_no_end_waiting(tmp_path):
    await filled(tmp_path)

    told = await asyncio.wait_for(under(tmp_path, "fdatasync:delay_enter=3500000:when=1+"), 60)

    assert wrong(told) == []
    assert told["found"] >= PUTS
    assert told["slowest_read_s"] < 1
    assert told["closed_s"] < 4
    assert "over 1 s for the disk" in told["told"][0]
