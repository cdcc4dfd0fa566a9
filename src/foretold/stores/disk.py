"""Bytes in one LMDB file on this machine: bounded, and sound after kill -9.

One thread writes, in batches, and commits with the data synced and the meta page not: a killed process loses nothing
that was acknowledged, a power cut at most the last batch (docs/decisions/0003).  Reads run inline: a warm one costs
two microseconds, a thread hop more.  Never `writemap`, which turns a full disk into a crash.

Two databases: `records` name → gone_at_ms 8 · sequence 8 · blob, and `order` sequence 8 → name, oldest first.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import lmdb

from foretold.errors import StoreError
from foretold.ports import Put

EVICT_ABOVE = 0.80
EVICT_TO = 0.75
SMALLEST_LIMIT_BYTES = 4 * 1024 * 1024

_BATCH = 512
_EVICTED_AT_ONCE = 64
_PREFIX = 16
_MAX_READERS = 512


class _Write(NamedTuple):
    """One put (blob given) or delete."""

    name: bytes
    blob: bytes | None
    gone_at_ms: int


@dataclass(slots=True)
class _Job:
    """Writes that wait for their commit together; `done` is how many of them failed."""

    writes: list[_Write]
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[int] = field(repr=False)
    failed: int = 0
    error: StoreError | None = None

    def settle(self) -> None:
        def tell() -> None:
            if not self.done.done():
                self.done.set_result(self.failed)

        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self.loop.call_soon_threadsafe(tell)


class DiskStore:
    def __init__(self, folder: Path, limit_bytes: int, *, now_ms: Callable[[], int]):
        """Opens the store, or sets a damaged one aside and begins anew.

        `limit_bytes` bounds the file.  Raises StoreError if the folder can't be used.
        """
        self.name = "disk"
        self.limit_bytes = max(limit_bytes, SMALLEST_LIMIT_BYTES)
        self.set_aside: Path | None = None
        self._now_ms = now_ms
        self.largest_bytes = self.limit_bytes // 8
        self._env = self._open(folder)
        self._records = self._env.open_db(b"records")
        self._order = self._env.open_db(b"order")
        self._env.reader_check()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._work, name="foretold-disk-writer", daemon=True)
        self._writer.start()

    def get_now(self, name: str) -> bytes | None:
        try:
            # In a frame of its own: a transaction that a waiting coroutine still names would keep its reader slot.
            with self._env.begin(db=self._records) as txn:
                kept = txn.get(name.encode())
        except lmdb.Error as e:
            raise StoreError(f"the disk store could not be read: {type(e).__name__}") from None
        if kept is None or len(kept) < _PREFIX or int.from_bytes(kept[:8], "big") <= self._now_ms():
            return None
        return kept[_PREFIX:]

    async def get(self, name: str) -> bytes | None:
        return self.get_now(name)

    async def put(self, name: str, blob: bytes, *, keep_s: int) -> None:
        await self._write([self._put(Put(name, blob, keep_s))])

    async def put_many(self, puts: Sequence[Put]) -> int:
        job = self._queue([self._put(put) for put in puts])
        return await job.done

    async def delete(self, name: str) -> None:
        await self._write([_Write(name.encode(), None, 0)])

    def scan(self) -> Iterator[str]:
        with self._env.begin(db=self._records) as txn:
            yield from [bytes(name).decode() for name in txn.cursor().iternext(keys=True, values=False)]

    @property
    def held_bytes(self) -> int:
        """Bytes of pages in use: the file itself never shrinks."""
        with self._env.begin() as txn:
            page = self._env.stat()["psize"]
            return sum(
                page * (s["branch_pages"] + s["leaf_pages"] + s["overflow_pages"])
                for s in (txn.stat(self._records), txn.stat(self._order))
            )

    async def close(self) -> None:
        """Commits what is queued, then lets go of the file."""
        self._jobs.put(None)
        await asyncio.get_running_loop().run_in_executor(None, self._writer.join)
        self._env.close()

    def _put(self, put: Put) -> _Write:
        """The write of a put; a blob that is too large only takes the old one away."""
        if len(put.blob) > self.largest_bytes:
            return _Write(put.name.encode(), None, 0)
        return _Write(put.name.encode(), put.blob, self._now_ms() + put.keep_s * 1000)

    def _queue(self, writes: list[_Write]) -> _Job:
        loop = asyncio.get_running_loop()
        job = _Job(writes, loop, loop.create_future())
        self._jobs.put(job)
        return job

    async def _write(self, writes: list[_Write]) -> None:
        job = self._queue(writes)
        if await job.done:
            raise job.error or StoreError("the disk store could not be written")

    def _work(self) -> None:
        """Takes what has come, in one transaction as long as it isn't too much, until told to stop."""
        running = True
        while running:
            jobs: list[_Job] = []
            job = self._jobs.get()
            while job is not None:
                jobs.append(job)
                if sum(len(j.writes) for j in jobs) >= _BATCH:
                    break
                try:
                    job = self._jobs.get_nowait()
                except queue.Empty:
                    break
            else:
                running = False
            self._commit(jobs)

    def _commit(self, jobs: list[_Job]) -> None:
        """All writes in one transaction; if that fails, each alone, so that one can't fail the others."""
        error = self._try_commit([write for job in jobs for write in job.writes])
        for job in jobs:
            for write in job.writes if error is not None else ():
                job.error = self._try_commit([write])
                job.failed += job.error is not None
            job.settle()

    def _try_commit(self, writes: list[_Write]) -> StoreError | None:
        if not writes:
            return None
        try:
            self._make_room()
            with self._env.begin(write=True) as txn:
                for write in writes:
                    self._apply(txn, write)
            return None
        except lmdb.MapFullError:
            return StoreError("the disk store is full")
        except lmdb.Error as e:
            return StoreError(f"the disk store could not be written: {type(e).__name__}")

    def _apply(self, txn: lmdb.Transaction, write: _Write) -> None:
        before = txn.get(write.name, db=self._records)
        if before is not None:
            txn.delete(before[8:_PREFIX], db=self._order)
        if write.blob is None:
            txn.delete(write.name, db=self._records)
            return
        with txn.cursor(self._order) as cursor:
            last = int.from_bytes(cursor.key(), "big") if cursor.last() else 0
        sequence = (last + 1).to_bytes(8, "big")
        txn.put(sequence, write.name, db=self._order, append=True)
        txn.put(write.name, write.gone_at_ms.to_bytes(8, "big") + sequence + write.blob, db=self._records)

    def _make_room(self) -> None:
        """Drops the oldest in small transactions once four fifths are in use: LMDB needs free pages even to delete."""
        if self.held_bytes <= self.limit_bytes * EVICT_ABOVE:
            return
        while self.held_bytes > self.limit_bytes * EVICT_TO:
            with self._env.begin(write=True) as txn, txn.cursor(self._order) as cursor:
                if not cursor.first():
                    return
                for _ in range(_EVICTED_AT_ONCE):
                    if not cursor.key():
                        break
                    txn.delete(cursor.value(), db=self._records)
                    cursor.delete()

    def _open(self, folder: Path) -> lmdb.Environment:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as e:
            raise StoreError(f"the folder {folder} for answers can't be made: {e.strerror}") from None
        try:
            return self._environment(folder)
        except (lmdb.InvalidError, lmdb.CorruptedError, lmdb.VersionMismatchError):
            self.set_aside = folder.with_name(f"{folder.name}.damaged-{time.time_ns()}")
            os.rename(folder, self.set_aside)
            folder.mkdir(mode=0o700)
            return self._environment(folder)

    def _environment(self, folder: Path) -> lmdb.Environment:
        try:
            return lmdb.open(
                str(folder),
                map_size=self.limit_bytes,
                max_dbs=4,
                max_readers=_MAX_READERS,
                metasync=False,
                readahead=False,
                mode=0o600,
            )
        except (lmdb.InvalidError, lmdb.CorruptedError, lmdb.VersionMismatchError):
            raise
        except (lmdb.Error, OSError) as e:
            raise StoreError(f"the disk store in {folder} can't be opened: {e}") from None
