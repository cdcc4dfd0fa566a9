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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import lmdb

from foretold.errors import StoreError

EVICT_ABOVE = 0.80
EVICT_TO = 0.75
SMALLEST_LIMIT_BYTES = 4 * 1024 * 1024

_BATCH = 512
_EVICTED_AT_ONCE = 64
_PREFIX = 16
_MAX_READERS = 512


@dataclass(slots=True)
class _Write:
    """One put (blob given) or delete, and the loop that waits for its commit."""

    name: bytes
    blob: bytes | None
    gone_at_ms: int
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[None] = field(repr=False)

    def settle(self, error: BaseException | None) -> None:
        def tell() -> None:
            if not self.done.done():
                self.done.set_exception(error) if error else self.done.set_result(None)

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
        self._largest_bytes = self.limit_bytes // 8
        self._env = self._open(folder)
        self._records = self._env.open_db(b"records")
        self._order = self._env.open_db(b"order")
        self._env.reader_check()
        self._writes: queue.SimpleQueue[_Write | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write_batches, name="foretold-disk-writer", daemon=True)
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
        if len(blob) > self._largest_bytes:
            return await self.delete(name)
        await self._write(name, blob, self._now_ms() + keep_s * 1000)

    async def delete(self, name: str) -> None:
        await self._write(name, None, 0)

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
        self._writes.put(None)
        await asyncio.get_running_loop().run_in_executor(None, self._writer.join)
        self._env.close()

    async def _write(self, name: str, blob: bytes | None, gone_at_ms: int) -> None:
        loop = asyncio.get_running_loop()
        write = _Write(name.encode(), blob, gone_at_ms, loop, loop.create_future())
        self._writes.put(write)
        await write.done

    def _write_batches(self) -> None:
        running = True
        while running:
            batch: list[_Write] = []
            waiting: _Write | None = self._writes.get()
            while waiting is not None:
                batch.append(waiting)
                if len(batch) == _BATCH:
                    break
                try:
                    waiting = self._writes.get_nowait()
                except queue.Empty:
                    break
            else:
                running = False
            self._commit(batch)

    def _commit(self, batch: list[_Write]) -> None:
        """All of a batch in one transaction; if that fails, each write alone, so that one can't fail the others."""
        error = self._try_commit(batch)
        if error is not None and len(batch) > 1:
            for write in batch:
                write.settle(self._try_commit([write]))
            return
        for write in batch:
            write.settle(error)

    def _try_commit(self, batch: list[_Write]) -> StoreError | None:
        if not batch:
            return None
        try:
            self._make_room()
            with self._env.begin(write=True) as txn:
                for write in batch:
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
