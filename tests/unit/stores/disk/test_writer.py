"""A writer that can't go on blocks nobody: reads, boot, the loop and the end all go on; and what can't be written is told."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from foretold.errors import StoreError
from foretold.ports import Put
from foretold.stores.disk import DiskStore
from foretold.stores.disk.jobs import QUEUE_BYTES
from foretold.stores.memory import MemoryStore
from foretold.tiers.keeping import Keeping
from foretold.tiers.order import Tiers
from foretold.tiers.tier import Tier
from tests.fakes.records import NAMESPACE, SECRET, record
from tests.waiting import until

LIMIT_BYTES = 64 * 2**20

HOLDS = """
import lmdb, os, signal, sys
env = lmdb.open(sys.argv[1], map_size=64 * 2**20, max_readers=512)
txn = env.begin(write=sys.argv[2] == "write")
txn.get(b"name")
print("holds", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""


def now_ms() -> int:
    return time.time_ns() // 10**6


@contextmanager
def stopped_in_a_transaction(folder: Path, kind: str) -> Iterator[int]:
    """Another process, stopped where it holds a transaction; its pid."""
    with subprocess.Popen([sys.executable, "-c", HOLDS, str(folder), kind], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"holds\n"
        try:
            yield process.pid
        finally:
            process.kill()


class Told(list[str]):
    def __call__(self, line: str) -> None:
        self.append(line)


async def test_a_process_stopped_in_its_transaction_blocks_no_read_no_boot_and_no_end(tmp_path):
    told = Told()
    first = DiskStore(tmp_path, LIMIT_BYTES, now_ms=now_ms)
    await first.put("name", b"value", keep_s=60)
    await first.close()

    with stopped_in_a_transaction(tmp_path, "write"):
        store = DiskStore(tmp_path, LIMIT_BYTES, now_ms=now_ms, tell=told, patience_s=0.3)
        tier = Tier(store, deadline_s=1)
        await tier.put_many([Put("new", b"value", 60), Put("large", b"x" * 100_000, 60)])
        with pytest.raises(StoreError):
            await store.delete("name")
        read = tier.get_now("name")
        await store.close()
        last = told[-1]  # once the other process is gone, the writer says that it goes on

    assert read == b"value"
    assert (tier.counts.writes, tier.counts.write_errors) == (0, 2)
    assert "over 0.3 s for the disk, or for another process" in told[0]
    assert "it is left" in last


async def test_a_node_with_a_blocked_writer_comes_to_its_end(tmp_path):
    store = DiskStore(tmp_path, LIMIT_BYTES, now_ms=now_ms, tell=Told(), patience_s=0.3)
    await store.put("name", b"value", keep_s=60)
    tier = Tier(store, deadline_s=1)
    tiers = Tiers(MemoryStore(2**20, largest_bytes=2**16, now_ms=now_ms), [tier], secret=SECRET, now_ms=now_ms)
    keeping = Keeping(tiers, secret=SECRET, largest_bytes=2**22, now_ms=now_ms)

    with stopped_in_a_transaction(tmp_path, "write"):
        keeping.keep(record(key="1" * 64, made_ms=now_ms()))
        await until(lambda: store._writer._busy_since_s is not None)
        keeping.keep(record(key="2" * 64, made_ms=now_ms()))
        found = tiers.look_near("2" * 64, NAMESPACE)
        await asyncio.wait_for(keeping.close(), 20)
        await asyncio.wait_for(tiers.close(), 20)

    assert found is not None
    assert tier.counts.write_errors == 2


async def test_once_the_other_process_is_gone_it_writes_again_and_says_so(tmp_path):
    told = Told()
    store = DiskStore(tmp_path, LIMIT_BYTES, now_ms=now_ms, tell=told, patience_s=0.3)
    await store.put("name", b"value", keep_s=60)
    with stopped_in_a_transaction(tmp_path, "write"):
        with pytest.raises(StoreError):
            await store.put("new", b"value", keep_s=60)
        # The writer may have begun a moment after that one was put: then the next finds that it is blocked.
        await until(lambda: store._writer.is_blocked)
        with pytest.raises(StoreError):
            await store.put("newer", b"value", keep_s=60)
    await until(lambda: not store._writer.is_blocked)

    await store.put("after", b"value", keep_s=60)

    assert store.get_now("after") == b"value"
    assert told[-1] == "the disk store goes on"
    await store.close()


async def test_while_the_writer_is_blocked_the_loop_goes_on_and_what_waits_is_bounded(tmp_path):
    store = DiskStore(tmp_path, LIMIT_BYTES, now_ms=now_ms, tell=Told(), patience_s=5)
    await store.put("name", b"value", keep_s=60)
    blob = b"x" * 4 * 2**20

    with stopped_in_a_transaction(tmp_path, "write"):
        puts = [asyncio.create_task(store.put(f"n{i}", blob, keep_s=60)) for i in range(40)]
        done, waiting = await asyncio.wait(puts, timeout=0.5)
        read = store.get_now("name")
        most = store._writer.jobs.waiting_bytes
        for task in waiting:
            task.cancel()
        await asyncio.gather(*puts, return_exceptions=True)

    assert read == b"value"
    assert {str(task.exception()) for task in done} == {"60 MiB wait for the disk already"}
    assert 0 < most <= QUEUE_BYTES
    await until(lambda: len(store._writer.jobs) == 0)
    await store.close()


async def test_what_was_given_up_is_not_written_later(tmp_path):
    store = DiskStore(tmp_path, LIMIT_BYTES, now_ms=now_ms, tell=Told(), patience_s=0.3)
    await store.put("name", b"value", keep_s=60)
    with stopped_in_a_transaction(tmp_path, "write"):
        first = asyncio.create_task(store.put("held", b"value", keep_s=60))
        await until(lambda: store._writer._busy_since_s is not None)
        second = asyncio.create_task(store.put("waiting", b"value", keep_s=60))
        await asyncio.gather(first, second, return_exceptions=True)
    await until(lambda: not store._writer.is_blocked)

    await store.put("after", b"value", keep_s=60)

    assert isinstance(second.exception(), StoreError)
    assert store.get_now("waiting") is None
    await store.close()


async def test_the_slot_of_a_killed_reader_is_freed(tmp_path):
    store = DiskStore(tmp_path, LIMIT_BYTES, now_ms=now_ms, tend_s=0.01)
    await store.put("name", b"value", keep_s=60)
    env = store._writer.opened.env

    with stopped_in_a_transaction(tmp_path, "read") as pid:
        seen = str(pid) in env.readers()
        os.kill(pid, signal.SIGKILL)

    assert seen
    await until(lambda: str(pid) not in env.readers())
    await store.close()


async def test_reads_take_no_slot_for_longer_than_they_last(tmp_path):
    store = DiskStore(tmp_path, LIMIT_BYTES, now_ms=now_ms)
    await store.put("name", b"value", keep_s=60)

    async def read() -> None:
        for _ in range(50):
            assert await store.get("name") == b"value"
            await asyncio.sleep(0)

    await asyncio.gather(*(read() for _ in range(50)))

    assert store._writer.opened.env.readers().count(str(os.getpid())) <= 2
    await store.close()


async def test_a_name_that_is_too_long_fails_alone(tmp_path):
    store = DiskStore(tmp_path, LIMIT_BYTES, now_ms=now_ms)

    failed = await store.put_many([Put("n" * 600, b"x" * 100_000, 60), Put("good", b"value", 60)])

    assert failed == 1
    assert store.get_now("good") == b"value"
    assert list((tmp_path / "bodies").glob("*/*")) == []
    await store.close()


async def test_what_has_no_order_any_more_makes_no_store_full_for_ever(tmp_path):
    """Damage can take the order away, and with it what would be evicted."""
    store = DiskStore(tmp_path / "answers", 4 * 2**20, now_ms=now_ms, tell=Told())
    await store.put_many([Put(f"n{i}", b"x" * 50_000, 60) for i in range(60)])
    with store._writer.opened.env.begin(write=True) as txn, txn.cursor() as cursor:
        while cursor.set_range(b"\xff"):
            cursor.delete()

    for i in range(20):
        await store.put_many([Put(f"m{i}", b"y" * 50_000, 60)])
    await until(lambda: store._writer.opened is not None)
    await store.put("after", b"value", keep_s=60)

    assert store.held_bytes <= store.limit_bytes
    assert store.get_now("after") == b"value"
    await store.close()


async def test_a_closed_store_takes_nothing_and_says_so(tmp_path):
    store = DiskStore(tmp_path, LIMIT_BYTES, now_ms=now_ms)
    await store.close()

    with pytest.raises(StoreError, match="closed"):
        await store.put("name", b"value", keep_s=60)
    with pytest.raises(StoreError, match="closed"):
        store.get_now("name")
