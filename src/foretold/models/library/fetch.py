"""Brings one file: parts at once, each of the same object, whole only if its digest is right.

What has come is kept when it breaks off, for whatever reason; the next run asks only for what is missing.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar, TypeVarTuple

from foretold.errors import LibraryError
from foretold.models.library.objects import Interrupted, Seen, Store
from foretold.models.library.parts import Journal, Plan
from foretold.models.library.shelf import COMING, PARTS, sync_folder, told

PART_BYTES = 8 * 2**20
AT_ONCE = 8
# How often a part may break off without a byte having come.
_TRIES = 4
_PAUSE_S = 0.1
_WRITERS = 4
_READ_BYTES = 2**20

R = TypeVar("R")
A = TypeVarTuple("A")


class WrongDigest(LibraryError):
    """The bytes are not those that were promised."""


class Fetching:
    """One file on its way to `blob`, whose lock the caller holds; `came_bytes` counts what was fetched for it."""

    def __init__(self, store: Store, seen: Seen, blob: Path, *, part_bytes: int = PART_BYTES, at_once: int = AT_ONCE):
        self._store = store
        self._seen = seen
        self._blob = blob
        self._coming = blob.with_name(blob.name + COMING)
        self._parts = blob.with_name(blob.name + PARTS)
        self._plan = Plan(seen.size_bytes, seen.etag, part_bytes)
        self._at_once = at_once
        self.came_bytes = 0

    async def run(self, *, sha256: str | None, told_bytes: Callable[[int], None]) -> str:
        """The file's digest, once it is whole and has its name; `told_bytes` hears how many have come.

        Raises WrongDigest, with nothing left, if it isn't `sha256`; LibraryError if it breaks off, with what has come
        left for the next run.
        """
        for suspects_old_parts in (True, False):
            found, began_whole = await self._bring(told_bytes)
            if sha256 is None or found == sha256:
                with told(self._blob.parent):
                    self._place()
                return found
            self._drop()
            # What an earlier run left may have been damaged on the disk: that is worth one more try, from the start.
            if not (suspects_old_parts and began_whole):
                break
        raise WrongDigest(
            f"{self._seen.key} in {self._store} is not what it should be: its SHA-256 is {found}. It was changed or"
            " damaged there, and was not kept: push it anew, with --replace"
        )

    async def _bring(self, told_bytes: Callable[[int], None]) -> tuple[str, bool]:
        """The digest of all bytes, and whether some of them came in an earlier run."""
        with told(self._blob.parent):
            file = self._reserve()
            try:
                journal = Journal(self._parts, self._plan)
            except OSError:
                os.close(file)
                raise
        earlier = bool(journal.done)
        pool = ThreadPoolExecutor(_WRITERS, thread_name_prefix="weights")
        run = _Run(self._store, self._seen, self._plan, file, journal, pool, told_bytes)
        try:
            with told(self._blob.parent):
                return await run.all(self._at_once), earlier
        finally:
            self.came_bytes += run.came_bytes
            pool.shutdown(wait=True, cancel_futures=True)
            journal.close()
            os.close(file)

    def _reserve(self) -> int:
        """The file that is coming, with room for all of it.  Raises OSError if there is none."""
        size_bytes = self._seen.size_bytes
        if self._coming.exists() and self._coming.stat().st_size != size_bytes:
            self._parts.unlink(missing_ok=True)
        if not self._coming.exists():
            self._parts.unlink(missing_ok=True)
        file = os.open(self._coming, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.ftruncate(file, size_bytes)
            if hasattr(os, "posix_fallocate") and size_bytes:
                os.posix_fallocate(file, 0, size_bytes)
        except OSError:
            os.close(file)
            if not self._parts.exists():
                self._coming.unlink()
            raise
        return file

    def _place(self) -> None:
        file = os.open(self._coming, os.O_RDONLY)
        try:
            os.fchmod(file, 0o444)
            os.fsync(file)
        finally:
            os.close(file)
        os.replace(self._coming, self._blob)
        sync_folder(self._blob.parent)
        self._parts.unlink(missing_ok=True)

    def _drop(self) -> None:
        self._parts.unlink(missing_ok=True)
        self._coming.unlink(missing_ok=True)


class _Run:
    def __init__(
        self,
        store: Store,
        seen: Seen,
        plan: Plan,
        file: int,
        journal: Journal,
        pool: ThreadPoolExecutor,
        told_bytes: Callable[[int], None],
    ):
        self._store = store
        self._seen = seen
        self._plan = plan
        self._file = file
        self._journal = journal
        self._pool = pool
        self._told_bytes = told_bytes
        self._came = [asyncio.Event() for _ in range(plan.count)]
        self._done_bytes = 0
        self.came_bytes = 0
        self._digest = hashlib.sha256()
        self._unsafe: list[int] = []
        self._more = asyncio.Event()

    async def all(self, at_once: int) -> str:
        """The digest of all parts, those that were there and those that are fetched now."""
        for part in self._journal.done:
            start, end = self._plan.bounds(part)
            self._done_bytes += end - start
            self._came[part].set()
        self._told_bytes(self._done_bytes)
        missing = [part for part in range(self._plan.count) if part not in self._journal.done]
        left = iter(missing)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._hash())
                tasks.create_task(self._note(len(missing)))
                for _ in range(at_once):
                    tasks.create_task(self._fetch(left))
        except BaseExceptionGroup as failures:
            raise _first(failures) from None
        finally:
            if self._unsafe:
                # Whole parts that came just before it broke off.
                os.fdatasync(self._file)
                self._noted(list(self._unsafe))
        return self._digest.hexdigest()

    async def _fetch(self, missing: Iterator[int]) -> None:
        for part in missing:  # each is taken by one task
            await self._part(part)

    async def _part(self, part: int) -> None:
        at, end = self._plan.bounds(part)
        tries = 0
        while at < end:
            before = at
            try:
                async for piece in self._store.pieces(self._seen.key, at, end, etag=self._seen.etag):
                    if at + len(piece) > end:
                        raise LibraryError(f"{self._store} gave more bytes of {self._seen.key} than were asked for")
                    await self._off(_write, self._file, piece, at)
                    at += len(piece)
                    self.came_bytes += len(piece)
                    self._done_bytes += len(piece)
                    self._told_bytes(self._done_bytes)
            except Interrupted:
                tries = 1 if at > before else tries + 1
                if tries >= _TRIES:
                    raise
                await asyncio.sleep(_PAUSE_S * 2**tries)
                continue
            # Ended without an error, and perhaps early: a store may give fewer bytes than it was asked for.
            tries = 1 if at > before else tries + 1
            if at < end and tries >= _TRIES:
                raise LibraryError(
                    f"{self._store} gave only the first {at:,} of the {self._seen.size_bytes:,} bytes of {self._seen.key}"
                )
        self._came[part].set()
        self._unsafe.append(part)
        self._more.set()

    async def _note(self, count: int) -> None:
        """Notes so many parts as they come: one `fdatasync` for all that were written meanwhile, and nobody waits for
        it.
        """
        while count:
            await self._more.wait()
            self._more.clear()
            parts = list(self._unsafe)
            await self._off(os.fdatasync, self._file)
            self._noted(parts)
            count -= len(parts)

    def _noted(self, parts: list[int]) -> None:
        for part in parts:
            self._journal.add(part)
            self._unsafe.remove(part)

    async def _hash(self) -> None:
        """Follows the parts in order, so that the digest is there soon after the last of them."""
        for part, came in enumerate(self._came):
            await came.wait()
            await self._off(self._hash_part, *self._plan.bounds(part))

    def _hash_part(self, at: int, end: int) -> None:
        while at < end:
            piece = os.pread(self._file, min(_READ_BYTES, end - at), at)
            if not piece:
                raise LibraryError("the file was cut while it was fetched: run it again")
            self._digest.update(piece)
            at += len(piece)

    async def _off(self, work: Callable[[*A], R], *arguments: *A) -> R:
        """In a thread, so that neither the disk nor the digest keeps the loop."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)


def _write(file: int, piece: bytes, at: int) -> None:
    view = memoryview(piece)
    while view:
        count = os.pwrite(file, view, at)
        view, at = view[count:], at + count


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """Of several that ended together the first; each says enough."""
    first = failures.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
