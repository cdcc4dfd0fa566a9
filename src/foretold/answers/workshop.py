"""Long answers of records, made ready off the event loop, and the last ones kept.

A record too large for memory is opened anew for each hit; what was made of it would be made anew as well, and while a
long transcript is folded on the event loop nobody else is answered.
"""

from __future__ import annotations

import asyncio
import secrets

from foretold.answers.ready import Ready, projected
from foretold.answers.reshaping import LONGEST_AT_ONCE
from foretold.halves import Halves
from foretold.memo import Named
from foretold.projections import shapes
from foretold.tiers.held import Held
from foretold.tiers.order import Tiers

KEPT_BYTES = 32 * 1024 * 1024


class Workshop:
    def __init__(self, tiers: Tiers, *, kept_bytes: int = KEPT_BYTES):
        self.made = 0
        self._tiers = tiers
        self._kept: Halves[Ready] = Halves(kept_bytes)
        self._making: dict[object, asyncio.Task[Ready]] = {}

    def has(self, held: Held, named: Named) -> bool:
        """Whether the answer can be given at once, because it is short or has been made; then it lies ready."""
        if len(held.body) <= LONGEST_AT_ONCE or held.operation not in shapes.WHOLE_OF:
            return True
        ready: Ready | None = None if held.ready is None else held.ready.get(named.place)
        if ready is None:
            ready = self._kept.get(_place(held, named))
            if ready is None:
                return False
            self._put_beside(held, named, ready)
        return not ready.has_calls or ready.next_body is not None

    async def make(self, held: Held, named: Named) -> None:
        """Makes an answer ready; who wants the same meanwhile waits for the same.  Raises NotAnAnswer.

        A body with fresh ids is good for one delivery: take it before anything else is awaited.
        """
        place = _place(held, named)
        ready: Ready | None = None if held.ready is None else held.ready.get(named.place)
        if ready is None:
            making = self._making.get(place)
            if making is None:
                making = self._making[place] = asyncio.create_task(asyncio.to_thread(Ready, held, named))
                making.add_done_callback(lambda task: self._end(place, task))
            ready = await asyncio.shield(making)
            self._put_beside(held, named, ready)
        if ready.has_calls:
            randomness = secrets.token_bytes(16)
            ready.next_body = await asyncio.to_thread(
                projected, held, ready.shape, usage=ready.usage, randomness=randomness
            )

    def _put_beside(self, held: Held, named: Named, ready: Ready) -> None:
        if held.ready is None:
            held.ready = {}
        if held.ready.setdefault(named.place, ready) is ready:
            self._tiers.grown(held, ready.kept_bytes)

    def _end(self, place: object, task: asyncio.Task[Ready]) -> None:
        del self._making[place]
        if not task.cancelled() and task.exception() is None:
            self.made += 1
            self._kept.put(place, task.result(), cost=task.result().kept_bytes)


def _place(held: Held, named: Named) -> object:
    return held.key, held.digest, held.made_ms, named.place
