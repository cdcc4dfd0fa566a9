"""What only the disk store promises: it outlives its process, shares, and keeps large bodies as files."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time

import pytest

from foretold.errors import StoreError
from foretold.ports import Put
from foretold.stores.disk import DiskStore
from foretold.stores.disk.claims import living
from foretold.stores.disk.index import is_named

LIMIT_BYTES = 8 * 2**20

WRITER = """
import asyncio, sys, time
from pathlib import Path
from foretold.stores.disk import DiskStore

async def main():
    store = DiskStore(Path(sys.argv[1]), 64 * 2**20, now_ms=lambda: time.time_ns() // 10**6)
    for i in range(100_000):
        await store.put(f"n{i}", b"%d:" % i + b"x" * 500, keep_s=3600)
        print(i, flush=True)

asyncio.run(main())
"""


def now_ms() -> int:
    return time.time_ns() // 10**6


async def test_what_was_put_is_there_in_the_next_process(tmp_path):
    first = DiskStore(tmp_path, LIMIT_BYTES, now_ms=now_ms)
    await first.put("name", b"value", keep_s=3600)
    await first.close()

    second = DiskStore(tmp_path, LIMIT_BYTES, now_ms=now_ms)

    assert await second.get("name") == b"value"
    await second.close()


@pytest.mark.parametrize("acknowledged", [1, 50, 400])
async def test_a_killed_writer_loses_nothing_that_was_acknowledged(tmp_path, acknowledged):
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for line in writer.stdout:
            if int(line) >= acknowledged:
                break
        os.kill(writer.pid, signal.SIGKILL)
        last = max([acknowledged, *(int(line) for line in writer.stdout)])

    store = DiskStore(tmp_path, 64 * 2**20, now_ms=now_ms)

    assert store.set_aside is None
    for i in range(last + 1):
        assert await store.get(f"n{i}") == b"%d:" % i + b"x" * 500
    await store.put("after", b"y", keep_s=60)
    assert await store.get("after") == b"y"
    await store.close()


async def test_two_processes_share_one_store(tmp_path):
    here = DiskStore(tmp_path, 64 * 2**20, now_ms=now_ms)
    other = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert other.stdout is not None
    async for line in other.stdout:
        if int(line) >= 100:
            break
    other.kill()
    await other.wait()

    assert await here.get("n100") == b"100:" + b"x" * 500
    await here.put("mine", b"too", keep_s=60)
    assert await here.get("mine") == b"too"
    await here.close()


async def test_the_file_never_grows_past_its_limit(tmp_path):
    store = DiskStore(tmp_path, LIMIT_BYTES, now_ms=now_ms)
    for i in range(200):
        await store.put(f"n{i}", b"x" * 200_000, keep_s=3600)
        assert (tmp_path / "data.mdb").stat().st_size <= LIMIT_BYTES
    await store.close()


async def test_the_folder_is_this_users_alone(tmp_path):
    store = DiskStore(tmp_path / "answers", LIMIT_BYTES, now_ms=now_ms)
    await store.close()

    assert (tmp_path / "answers").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "answers" / "data.mdb").stat().st_mode & 0o777 == 0o600


async def test_memory_is_never_mapped_for_writing_and_data_is_synced(tmp_path):
    """A full disk under a writable map kills the process (SIGBUS); without a sync a power cut loses everything."""
    store = DiskStore(tmp_path, LIMIT_BYTES, now_ms=now_ms)

    flags = store._writer.opened.env.flags()

    assert (flags["writemap"], flags["sync"], flags["metasync"], flags["map_async"]) == (False, True, False, False)
    await store.close()


async def test_a_large_body_is_a_private_file_and_counts(tmp_path):
    store = DiskStore(tmp_path, LIMIT_BYTES, now_ms=now_ms)
    before = store.held_bytes

    await store.put("large", b"x" * 500_000, keep_s=60)
    await store.put("small", b"x" * 60_000, keep_s=60)

    (file,) = (tmp_path / "bodies").glob("*/*")
    assert file.read_bytes() == b"x" * 500_000
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert store.held_bytes - before >= 560_000
    await store.close()


async def test_a_large_body_that_is_replaced_or_deleted_leaves_no_file(tmp_path):
    store = DiskStore(tmp_path, LIMIT_BYTES, now_ms=now_ms)
    for name in ("replaced", "deleted", "shrunk"):
        await store.put(name, b"old" * 50_000, keep_s=60)

    await store.put("replaced", b"new" * 60_000, keep_s=60)
    await store.put("shrunk", b"new", keep_s=60)
    await store.delete("deleted")

    assert [file.stat().st_size for file in (tmp_path / "bodies").glob("*/*")] == [180_000]
    assert store.get_now("replaced") == b"new" * 60_000
    assert store.get_now("shrunk") == b"new"
    await store.close()


async def test_evicting_large_bodies_keeps_files_and_count_within_the_limit(tmp_path):
    store = DiskStore(tmp_path, LIMIT_BYTES, now_ms=now_ms)

    for i in range(60):
        await store.put_many([Put(f"{i}-{j}", b"x" * (70_000 + 1000 * j), 60) for j in range(8)])
        assert store.held_bytes <= LIMIT_BYTES
        assert sum(file.stat().st_size for file in (tmp_path / "bodies").glob("*/*")) <= LIMIT_BYTES

    assert store.held_bytes > LIMIT_BYTES / 2
    assert store.get_now("59-7") == b"x" * 77_000
    assert len(list(store.scan())) == len(list((tmp_path / "bodies").glob("*/*")))
    await store.close()


@pytest.mark.parametrize("harm", ["missing", "short", "long", "folder"])
async def test_a_body_whose_file_is_not_the_one_written_is_an_error_and_can_be_put_anew(tmp_path, harm):
    store = DiskStore(tmp_path, LIMIT_BYTES, now_ms=now_ms)
    await store.put("name", b"x" * 100_000, keep_s=60)
    (file,) = (tmp_path / "bodies").glob("*/*")
    if harm == "short":
        os.truncate(file, 99_999)
    elif harm == "long":
        os.truncate(file, 100_001)
    else:
        file.unlink()
    if harm == "folder":
        file.mkdir()

    with pytest.raises(StoreError, match="body"):
        store.get_now("name")

    await store.put("name", b"y" * 100_000, keep_s=60)
    assert store.get_now("name") == b"y" * 100_000
    await store.close()


async def test_a_reader_of_a_body_that_is_replaced_meanwhile_finds_the_new_one(tmp_path):
    store = DiskStore(tmp_path, LIMIT_BYTES, now_ms=now_ms)
    await store.put("name", b"old" * 50_000, keep_s=60)
    old_entry = store._entry("name")
    await store.put("name", b"new" * 50_000, keep_s=60)

    assert store._from_file("name", old_entry) == b"new" * 50_000
    await store.close()


async def test_files_that_a_killed_process_left_are_swept_at_the_next_start_and_those_of_the_living_are_not(tmp_path):
    first = DiskStore(tmp_path, LIMIT_BYTES, now_ms=now_ms)
    await first.put("kept", b"x" * 100_000, keep_s=60)
    of_the_dead, of_the_living = b"\1" * 16, first._writer.opened.claim.id + b"\2" * 8
    for token in (of_the_dead, of_the_living):
        (tmp_path / "bodies" / token.hex()[-2:]).mkdir(exist_ok=True)
        (tmp_path / "bodies" / token.hex()[-2:] / token.hex()).write_bytes(b"orphan")

    swept = first._writer.bodies.sweep(living(tmp_path), lambda token: is_named(first._writer.opened, token))

    assert swept == 1
    assert (tmp_path / "bodies" / "02" / of_the_living.hex()).exists()
    assert first.get_now("kept") == b"x" * 100_000
    await first.close()
    second = DiskStore(tmp_path, LIMIT_BYTES, now_ms=now_ms)
    await second.put("after", b"", keep_s=60)  # the writer sweeps before it writes
    assert [file.stat().st_size for file in (tmp_path / "bodies").glob("*/*")] == [100_000]
    await second.close()


async def test_a_sum_of_files_that_is_wrong_is_corrected_at_the_next_start(tmp_path):
    first = DiskStore(tmp_path, LIMIT_BYTES, now_ms=now_ms)
    await first.put("name", b"x" * 100_000, keep_s=60)
    held = first.held_bytes
    with first._writer.opened.env.begin(write=True) as txn:
        txn.put(b"\xfd", (2**40).to_bytes(8, "big"))
    await first.close()

    second = DiskStore(tmp_path, LIMIT_BYTES, now_ms=now_ms)
    await second.delete("none")

    assert second.held_bytes == held
    assert second.get_now("name") is not None
    await second.close()


CHURNS = """
import asyncio, random, sys, time
from pathlib import Path
from foretold.errors import StoreError
from foretold.stores.disk import DiskStore

def value(name, size):
    return (name + ":").encode() * (size // (len(name) + 1))

async def main(folder, seed):
    store = DiskStore(folder, 8 * 2**20, now_ms=lambda: time.time_ns() // 10**6)
    chance = random.Random(seed)
    wrong = errors = found = 0
    for _ in range(150):
        name = str(chance.randrange(60))
        await store.put(name, value(name, chance.choice((200, 5_000, 70_000, 400_000))), keep_s=60)
        for _ in range(20):
            name = str(chance.randrange(60))
            try:
                blob = store.get_now(name)
            except StoreError:
                errors += 1
                continue
            found += blob is not None
            wrong += blob is not None and blob != value(name, len(blob) + len(name))
        assert store.held_bytes <= 8 * 2**20
    await store.close()
    print(wrong, errors, found > 500)

asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
"""


async def test_processes_that_replace_and_evict_each_others_bodies_see_only_whole_ones(tmp_path):
    running = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", CHURNS, str(tmp_path), str(seed), stdout=asyncio.subprocess.PIPE
        )
        for seed in range(3)
    ]

    told = [(await process.communicate())[0] for process in running]

    assert told == [b"0 0 True\n"] * 3
    store = DiskStore(tmp_path, LIMIT_BYTES, now_ms=now_ms)
    await store.put("after", b"value", keep_s=60)
    named = [name for name in store.scan() if len(store.get_now(name)) > 64 * 1024]
    assert len(list((tmp_path / "bodies").glob("*/*"))) == len(named)
    await store.close()


async def test_a_reader_that_the_disk_blocks_keeps_no_end_waiting(tmp_path):
    told = []
    store = DiskStore(tmp_path, LIMIT_BYTES, now_ms=lambda: 0, tell=told.append, patience_s=0.2)

    with store._gate:
        await asyncio.wait_for(store.close(), 10)

    assert told == ["the disk store's reader is blocked by a slow disk: it is left"]
    await store.close()
