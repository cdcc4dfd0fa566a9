"""What only the disk store promises: it outlives its process, and a damaged file never keeps a node from starting."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time

import lmdb
import pytest

from foretold.errors import StoreError
from foretold.stores.disk import DiskStore

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


async def test_a_file_that_is_no_store_is_set_aside_and_a_new_one_begun(tmp_path):
    folder = tmp_path / "answers"
    folder.mkdir()
    (folder / "data.mdb").write_bytes(b"not a store" * 1000)

    store = DiskStore(folder, LIMIT_BYTES, now_ms=now_ms)

    assert store.set_aside is not None
    assert (store.set_aside / "data.mdb").read_bytes().startswith(b"not a store")
    await store.put("name", b"value", keep_s=60)
    assert await store.get("name") == b"value"
    await store.close()


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


def test_a_folder_that_cannot_be_used_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(StoreError, match="file"):
        DiskStore(tmp_path / "file", LIMIT_BYTES, now_ms=now_ms)


async def test_memory_is_never_mapped_for_writing(tmp_path):
    """A full disk under a writable map kills the process (SIGBUS)."""
    store = DiskStore(tmp_path, LIMIT_BYTES, now_ms=now_ms)

    assert store._env.flags()["writemap"] is False
    assert isinstance(store._env, lmdb.Environment)
    await store.close()
