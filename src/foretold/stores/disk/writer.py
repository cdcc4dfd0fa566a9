"""The one thread of a process that writes to the store: in batches, evicting, and mending what breaks.

Nothing waits for it that answers.  Another process may be stopped within its transaction, or a sync may hang: then
what waits here is bounded in bytes and in time, and what can't be written is told to whoever asked, as failed.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import lmdb

from foretold.errors import StoreError
from foretold.stores.disk import claims, index
from foretold.stores.disk.bodies import Bodies
from foretold.stores.disk.index import Write
from foretold.stores.disk.jobs import Job, Jobs
from foretold.stores.disk.opening import DAMAGE, Opened, open_store, set_aside_and_open
from foretold.stores.disk.pages import Damaged

EVICT_ABOVE = 0.80
EVICT_TO = 0.75
FILE_ABOVE_BYTES = 64 * 1024
PATIENCE_S = 5.0
TEND_S = 60.0
MEND_AGAIN_S = 600.0

_BATCH_BYTES = 8 * 1024 * 1024
_WALK_SLICE_S = 0.005


class Writer(threading.Thread):
    def __init__(
        self, opened: Opened, limit_bytes: int, *, tell: Callable[[str], None], patience_s: float, tend_s: float
    ):
        super().__init__(name="foretold-disk-writer", daemon=True)
        self.set_aside: Path | None = opened.set_aside
        # Readers hold it while they are within the environment, so that none is taken away under them.
        self.gate = threading.Lock()
        self.opened: Opened | None = opened
        self.bodies = Bodies(opened.folder, opened.claim.id)
        self._folder = opened.folder
        self._limit_bytes = limit_bytes
        self._say = tell
        self._patience_s = patience_s
        self._tend_s = tend_s
        self.jobs = Jobs()
        self._damage: str | None = None
        self._busy_since_s: float | None = None
        self._said_blocked = False
        self._mended_s: float | None = None
        self._write_again_s = 0.0

    @property
    def is_blocked(self) -> bool:
        """Whether one transaction or sync has taken longer than anybody should wait."""
        since = self._busy_since_s
        return since is not None and time.monotonic() - since > self._patience_s

    def add(self, writes: list[Write]) -> Job:
        """Raises StoreError if too much waits already, or nothing goes on."""
        self._notice_blocked()
        if self.is_blocked:
            raise StoreError("the disk store's writer is blocked by a slow disk or a stopped process")
        return self.jobs.add(writes)

    def take_back(self, job: Job) -> int:
        """Gives up a job; how many of its writes are not known to be done."""
        self._notice_blocked()
        return self.jobs.take_back(job)

    def _notice_blocked(self) -> None:
        if self.is_blocked and not self._said_blocked:
            self._said_blocked = True
            self._say(
                f"the disk store has waited over {self._patience_s:g} s for the disk, or for another process that holds "
                "it: answers go on without it, new ones are not kept on disk"
            )

    def mend(self, why: str) -> None:
        """Asks for the store to be closed and opened anew."""
        self._damage = why
        self.jobs.call()

    def run(self) -> None:
        try:
            self._work()
        finally:
            self.jobs.close()

    def _work(self) -> None:
        if not self._finish_walk():
            return
        self._tend(first=True)
        tended_s = time.monotonic()
        largest_bytes = min(_BATCH_BYTES, self._limit_bytes // 16)
        while not self.jobs.is_closed or len(self.jobs):
            batch = self.jobs.take(largest_bytes, within_s=tended_s + self._tend_s - time.monotonic())
            if self._damage is not None:
                self._mend(self._damage)
            if batch:
                with self._busy():
                    self._commit(batch)
            if time.monotonic() - tended_s >= self._tend_s:
                self._tend(first=False)
                tended_s = time.monotonic()

    @contextlib.contextmanager
    def _busy(self) -> Iterator[None]:
        """What is done within may block, and is then seen to."""
        self._busy_since_s = time.monotonic()
        try:
            yield
        finally:
            self._busy_since_s = None
            if self._said_blocked:
                self._said_blocked = False
                self._say("the disk store goes on")

    def _commit(self, batch: list[tuple[Job, Write]]) -> None:
        """All in one transaction; if that fails, each alone, so that one can't fail the others."""
        opened = self.opened
        if opened is None or time.monotonic() < self._write_again_s:
            for job, _ in batch:
                job.settle(StoreError("the disk store can't be opened or written, which is tried again in a while"))
            return
        filed: list[tuple[Job, Write]] = []
        for job, write in batch:
            try:
                filed.append((job, self._filed(write)))
            except OSError as e:
                job.settle(StoreError(f"the disk store could not be written: {e.strerror}"))
        error, is_ours = self._try(opened, [write for _, write in filed])
        for job, write in filed:
            alone = self._try(opened, [write])[0] if error is not None and is_ours and len(filed) > 1 else error
            if alone is not None and write.token is not None:
                self.bodies.remove([write.token])
            job.settle(alone)

    def _filed(self, write: Write) -> Write:
        """A write whose large body is in a file.  Raises OSError."""
        if write.blob is None or len(write.blob) <= FILE_ABOVE_BYTES:
            return write
        token = self.bodies.write(write.blob)
        return Write(write.name, None, write.gone_at_ms, token, len(write.blob))

    def _try(self, opened: Opened, writes: list[Write]) -> tuple[StoreError | None, bool]:
        """What kept the writes from being done, and whether one of them may be the cause."""
        if not writes:
            return None, False
        try:
            self.bodies.sync([write.token for write in writes if write.token is not None])
            self._make_room(opened, sum(_taken_by(write) for write in writes))
            self.bodies.remove(index.apply(opened, writes))
            return None, False
        except (lmdb.MapFullError, lmdb.TxnFullError):
            return StoreError("the disk store is full"), True
        except (Damaged, *DAMAGE) as e:
            self._damage = type(e).__name__
            return StoreError(f"the disk store is damaged: {type(e).__name__}"), False
        except lmdb.BadValsizeError:
            return StoreError("a name is longer than the disk store takes"), True
        except (lmdb.Error, OSError) as e:
            return StoreError(f"the disk store could not be written: {e}"), False

    def _make_room(self, opened: Opened, more_bytes: int) -> None:
        """Drops the oldest, in small transactions, once four fifths would be in use."""
        held = index.held_bytes(opened)
        if held + more_bytes <= self._limit_bytes * EVICT_ABOVE:
            return
        goal = max(0, int(self._limit_bytes * EVICT_TO) - more_bytes)
        while held > goal:
            freed = index.evict(opened, held - goal)
            if freed is None:
                if held > self._limit_bytes * EVICT_ABOVE:
                    raise Damaged("what is held has no order")
                return
            self.bodies.remove(freed)
            held = index.held_bytes(opened)

    def _finish_walk(self) -> bool:
        """Walks what was left at open, in slices: nothing is written to pages that were not looked at.

        False if it was told to stop before the end.
        """
        opened = self.opened
        if opened is None or opened.unchecked is None:
            return True
        try:
            while not opened.unchecked.walk.run(time.monotonic() + _WALK_SLICE_S):
                if self.jobs.closed_within(_WALK_SLICE_S):
                    return False
        except Damaged as e:
            self._mend(str(e), is_certain=True)
        else:
            opened.unchecked.close()
            opened.unchecked = None
        return True

    def _tend(self, *, first: bool) -> None:
        """Frees the slots of dead readers, sweeps orphans, and moves to the new store if the folder was replaced."""
        with self._busy():
            self._tend_now(first=first)

    def _tend_now(self, *, first: bool) -> None:
        opened = self.opened
        try:
            if opened is None:
                self._open_anew(is_damaged=False)
            elif not opened.is_still_there():
                self._mend("its folder was moved or removed")
            else:
                opened.env.reader_check()
                if first:
                    self.bodies.sweep(claims.living(self._folder), lambda token: index.is_named(opened, token))
                    index.sum_anew(opened)
        except (Damaged, *DAMAGE) as e:
            self._mend(type(e).__name__)
        except (lmdb.Error, OSError) as e:
            self._say(f"the disk store could not be tended: {e}")

    def _mend(self, why: str, *, is_certain: bool = False) -> None:
        """Closes the store and opens it anew.

        What is damaged again soon after is set aside.  A root that could not be written is no damage of what is there:
        if that happens again, the store is only read for a while.
        """
        now_s = time.monotonic()
        is_again = self._mended_s is not None and now_s - self._mended_s < MEND_AGAIN_S
        with self.gate:
            old, self.opened = self.opened, None
        self._damage = None
        self._mended_s = now_s
        is_moved = old is not None and not old.is_still_there()
        if old is not None:
            old.close()
        self._say(f"the disk store is opened anew: {why}")
        is_unwritable = is_again and why == lmdb.PanicError.__name__
        if is_unwritable:
            self._write_again_s = now_s + self._tend_s
            self._say("the disk can't be written: that is tried again in a while")
        self._open_anew(is_damaged=is_certain or (is_again and not is_moved and not is_unwritable))

    def _open_anew(self, *, is_damaged: bool) -> None:
        try:
            opened = (set_aside_and_open if is_damaged else open_store)(self._folder, self._limit_bytes)
        except (StoreError, OSError) as e:
            self._say(f"the disk store stays closed: {e}")
            return
        if opened.set_aside is not None:
            self.set_aside = opened.set_aside
            self._say(f"the kept answers were damaged and are set aside in {opened.set_aside}; a new store was begun")
        self.bodies = Bodies(opened.folder, opened.claim.id)
        with self.gate:
            self.opened = opened
        self._finish_walk()


def _taken_by(write: Write) -> int:
    if write.token is not None:
        return index.put_bytes(write.length, is_file=True)
    return index.put_bytes(len(write.blob), is_file=False) if write.blob is not None else 0
