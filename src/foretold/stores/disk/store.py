"""The store as its port has it (ports.NearStore): reads here, writes in the writer's thread.

Reads run inline: a warm one costs two microseconds, a thread hop more.  A killed process loses nothing that was
acknowledged, a power cut at most the last batch (docs/decisions/0003).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import lmdb

from foretold.errors import StoreError
from foretold.ports import Put
from foretold.stores.disk import index
from foretold.stores.disk.index import FILE, INLINE, PREFIX_BYTES, Write
from foretold.stores.disk.jobs import Job
from foretold.stores.disk.opening import DAMAGE, Opened, open_store
from foretold.stores.disk.writer import FILE_ABOVE_BYTES, PATIENCE_S, TEND_S, Writer

SMALLEST_LIMIT_BYTES = 4 * 1024 * 1024

_LARGEST_ENTRY_BYTES = PREFIX_BYTES + FILE_ABOVE_BYTES


def _to_stderr(line: str) -> None:
    print(f"foretold: {line}", file=sys.stderr, flush=True)


class DiskStore:
    def __init__(
        self,
        folder: Path,
        limit_bytes: int,
        *,
        now_ms: Callable[[], int],
        tell: Callable[[str], None] = _to_stderr,
        patience_s: float = PATIENCE_S,
        tend_s: float = TEND_S,
    ):
        """Opens the store, or sets a damaged one aside and begins anew.

        `limit_bytes` bounds what is held.  `tell` takes a line when something happens that nobody asked for.  A writer
        that is blocked is waited for `patience_s`; each `tend_s` the store is looked after.  Raises StoreError if the
        folder can't be used.
        """
        self.name = "disk"
        self.limit_bytes = max(limit_bytes, SMALLEST_LIMIT_BYTES)
        self._now_ms = now_ms
        self._tell = tell
        self.largest_bytes = self.limit_bytes // 8
        opened = open_store(folder, self.limit_bytes)
        self._patience_s = patience_s
        self._writer = Writer(opened, self.limit_bytes, tell=tell, patience_s=patience_s, tend_s=tend_s)
        self._gate = self._writer.gate
        self._writer.start()

    @property
    def set_aside(self) -> Path | None:
        """Where the last damaged store of this folder was moved."""
        return self._writer.set_aside

    def get_now(self, name: str) -> bytes | None:
        entry = self._entry(name)
        if entry is None or int.from_bytes(entry[:8], "big") <= self._now_ms():
            return None
        if entry[16:PREFIX_BYTES] == b"\0":
            return entry[PREFIX_BYTES:]
        return self._from_file(name, entry)

    async def get(self, name: str) -> bytes | None:
        return self.get_now(name)

    async def put(self, name: str, blob: bytes, *, keep_s: int) -> None:
        await self._write(self._put(Put(name, blob, keep_s)))

    async def put_many(self, puts: Sequence[Put]) -> int:
        return await self._ended(self._writer.add([self._put(put) for put in puts]))

    async def delete(self, name: str) -> None:
        await self._write(Write(name.encode()))

    def scan(self) -> Iterator[str]:
        with self._gate:
            names = index.names(self._opened())
        yield from names

    @property
    def held_bytes(self) -> int:
        """Bytes of pages in use and of files; 0 while the store is closed for mending."""
        with self._gate:
            opened = self._writer.opened
            try:
                return index.held_bytes(opened) if opened is not None else 0
            except lmdb.Error as e:
                self._note(e)
                return 0

    async def close(self) -> None:
        """Commits what is queued, then lets go of the file; a writer that is blocked is waited for some seconds only."""
        self._writer.jobs.close()
        await asyncio.get_running_loop().run_in_executor(None, self._writer.join, self._patience_s)
        if self._writer.is_alive():
            self._tell(
                f"the disk store's writer is blocked by a slow disk or a stopped process: it is left, "
                f"and {len(self._writer.jobs)} writes with it"
            )
            return
        # A thread that reads may be blocked within, by the disk.
        if not await asyncio.get_running_loop().run_in_executor(None, self._gate.acquire, True, self._patience_s):
            self._tell("the disk store's reader is blocked by a slow disk: it is left")
            return
        try:
            opened, self._writer.opened = self._writer.opened, None
        finally:
            self._gate.release()
        if opened is not None:
            opened.close()

    def _entry(self, name: str) -> bytes | None:
        with self._gate:
            opened = self._opened()
            try:
                # Neither the buffer nor the transaction may outlive this: a reader's slot keeps pages from being used.
                with opened.env.begin(buffers=True) as txn:
                    found = txn.get(name.encode())
                    if found is None:
                        return None
                    # A length that was never written may reach beyond the map.
                    entry = bytes(found) if len(found) <= _LARGEST_ENTRY_BYTES else b""
            except lmdb.Error as e:
                self._note(e)
                raise StoreError(f"the disk store could not be read: {type(e).__name__}") from None
        if len(entry) < PREFIX_BYTES or entry[16] not in (INLINE, FILE):
            raise StoreError("the disk store holds an entry that it never wrote")
        return entry

    def _from_file(self, name: str, entry: bytes) -> bytes | None:
        """The body in the file that an entry names; if it is gone, in the one that its newer entry names."""
        for _ in range(3):
            file = index.file_of(entry)
            if file is None:
                raise StoreError("the disk store holds an entry that it never wrote")
            try:
                blob = self._writer.bodies.read(*file)
            except OSError as e:
                raise StoreError(f"a body could not be read: {e.strerror}") from None
            if blob is not None:
                return blob
            before, now = entry, self._entry(name)
            if now is None or now[16] == INLINE:
                return None if now is None else now[PREFIX_BYTES:]
            if now == before:
                break
            entry = now
        raise StoreError("a body's file is missing or cut")

    def _opened(self) -> Opened:
        opened = self._writer.opened
        if opened is None:
            raise StoreError("the disk store is closed")
        return opened

    def _note(self, error: lmdb.Error) -> None:
        if isinstance(error, DAMAGE):
            self._writer.mend(type(error).__name__)

    def _put(self, put: Put) -> Write:
        """The write of a put; a blob that is too large only takes the old one away."""
        if len(put.blob) > self.largest_bytes:
            return Write(put.name.encode())
        return Write(put.name.encode(), put.blob, self._now_ms() + put.keep_s * 1000)

    async def _write(self, write: Write) -> None:
        job = self._writer.add([write])
        if await self._ended(job):
            raise job.error or StoreError("the disk store could not be written in time")

    async def _ended(self, job: Job) -> int:
        """How many writes of a job failed, or were not done before patience ended."""
        try:
            async with asyncio.timeout(self._patience_s):
                await job.done
        except TimeoutError:
            return self._writer.take_back(job)
        return job.failed
