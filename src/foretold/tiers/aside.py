"""Work that may block, on threads of its own: nobody waits for one that never ends, not even the end of the process."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

THREADS = 4
MOST_WAITING = 64


class Aside:
    def __init__(self, name: str):
        self._name = name
        self._waiting: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []

    async def run(self, work: Callable[[], T]) -> T:
        """What `work` gives, and raises what it raises; TimeoutError at once if all threads are stuck."""
        if self._waiting.qsize() >= MOST_WAITING:
            raise TimeoutError
        if len(self._threads) < THREADS:
            # A daemon, unlike those of an executor, which the interpreter joins at its end.
            thread = threading.Thread(target=self._work, name=f"foretold-{self._name}", daemon=True)
            self._threads.append(thread)
            thread.start()
        future: Future[T] = Future()
        self._waiting.put((future, work))
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Lets the threads end, once they are done."""
        for _ in self._threads:
            self._waiting.put(None)

    def _work(self) -> None:
        while (job := self._waiting.get()) is not None:
            future, work = job
            if not future.set_running_or_notify_cancel():
                continue  # nobody waits for it any more
            try:
                future.set_result(work())
            except BaseException as e:  # noqa: BLE001 - raised where it is waited for
                future.set_exception(e)
