"""What waits for the writer, bounded in bytes: beyond the bound it is refused, and whoever asked may take it back."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from dataclasses import dataclass, field

from foretold.errors import StoreError
from foretold.stores.disk.index import Write

QUEUE_BYTES = 64 * 1024 * 1024

_BATCH = 512
_OVERHEAD_BYTES = 200


@dataclass(slots=True, eq=False)
class Job:
    """Writes whose end one caller waits for."""

    left: int
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[None] = field(repr=False)
    failed: int = 0
    error: StoreError | None = None

    def settle(self, error: StoreError | None) -> None:
        """One of the writes has ended."""
        self.left -= 1
        if error is not None:
            self.failed += 1
            self.error = error
        if self.left == 0:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self.loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


class Jobs:
    def __init__(self) -> None:
        self.waiting_bytes = 0
        self.is_closed = False
        self._news = threading.Condition()
        self._waiting: deque[tuple[Job, Write]] = deque()
        self._called = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, writes: list[Write]) -> Job:
        """Raises StoreError if too much waits already, or nothing is taken any more."""
        loop = asyncio.get_running_loop()
        job = Job(len(writes), loop, loop.create_future())
        if not writes:
            job.done.set_result(None)
            return job
        more = sum(map(_bytes_of, writes))
        with self._news:
            if self.is_closed:
                raise StoreError("the disk store is closed")
            if self._waiting and self.waiting_bytes + more > QUEUE_BYTES:
                raise StoreError(f"{self.waiting_bytes >> 20} MiB wait for the disk already")
            self._waiting.extend((job, write) for write in writes)
            self.waiting_bytes += more
            self._news.notify()
        return job

    def take_back(self, job: Job) -> int:
        """Forgets what still waits of a job; how many of its writes are not known to be done."""
        with self._news:
            self._waiting = deque(item for item in self._waiting if item[0] is not job)
            self.waiting_bytes = sum(_bytes_of(write) for _, write in self._waiting)
        return job.failed + job.left

    def take(self, largest_bytes: int, *, within_s: float) -> list[tuple[Job, Write]]:
        """The next ones, together not much more than so many bytes; none if nothing came, or it was called."""
        with self._news:
            self._news.wait_for(lambda: self._waiting or self._called or self.is_closed, timeout=max(0.0, within_s))
            self._called = False
            batch: list[tuple[Job, Write]] = []
            size = 0
            while self._waiting and len(batch) < _BATCH:
                more = _bytes_of(self._waiting[0][1])
                if batch and size + more > largest_bytes:
                    break
                batch.append(self._waiting.popleft())
                size += more
            self.waiting_bytes -= size
            return batch

    def call(self) -> None:
        """Wakes whoever takes."""
        with self._news:
            self._called = True
            self._news.notify()

    def close(self) -> None:
        """Takes nothing more."""
        with self._news:
            self.is_closed = True
            self._news.notify()

    def closed_within(self, seconds: float) -> bool:
        """Waits so long, or until it is closed."""
        with self._news:
            return self._news.wait_for(lambda: self.is_closed, timeout=seconds)


def _bytes_of(write: Write) -> int:
    return _OVERHEAD_BYTES + len(write.name) + len(write.blob or b"")
