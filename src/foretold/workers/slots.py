"""The slots of one engine, among the callers of all workers: whoever asked first gets the next."""

from __future__ import annotations

import asyncio

from foretold.origins.local import Slots


class EngineSlots:
    """A ticket is a worker and a number of its own."""

    def __init__(self, slots: Slots):
        self._slots = slots
        self._held: set[tuple[int, int]] = set()
        self._waiting: dict[tuple[int, int], asyncio.Task[object]] = {}

    async def take(self, ticket: tuple[int, int]) -> None:
        """Returns once it has a slot; whoever leaves meanwhile cancels this."""
        task = asyncio.current_task()
        assert task is not None
        self._waiting[ticket] = task
        try:
            await self._slots.acquire()
        finally:
            del self._waiting[ticket]
        self._held.add(ticket)

    def leave(self, ticket: tuple[int, int], *, keep_alive_s: float | None = None) -> None:
        """Gives up a slot, or the wait for one; harmless for a ticket that has neither."""
        if ticket in self._held:
            self._held.remove(ticket)
            self._slots.release(keep_alive_s)
        elif ticket in self._waiting:
            self._waiting[ticket].cancel()

    def leave_all(self, worker: int) -> None:
        for ticket in [*self._held, *self._waiting]:
            if ticket[0] == worker:
                self.leave(ticket)
