"""The models of this machine: loaded when they are first wanted, kept while there is room, unloaded when there is none.

Whoever wants an answer of a model takes a slot of it.  One who wants a model that isn't here waits for its room; those
who come later for a model that must make this room wait behind him.  What goes is decided in room.py.

A model may be here in two revisions: one that is coming is loaded beside the one that is asked, or in its room; once it
is asked, the other ends its answers and goes (models/promoting.py).
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import logging
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from foretold.errors import ModelError, OriginBusy, OriginReplaced, OriginUnready
from foretold.models.place import Member, Place, Runs, Standing, State
from foretold.models.room import (
    Decision,
    Evict,
    Fits,
    Never,
    Resident,
    Wait,
    decide,
    expired,
    making_way,
    next_expiry_s,
    refusals,
    together,
    why_never,
)
from foretold.models.tally import Tally

__all__ = ["Member", "Pool", "PoolSlots", "Runs"]
_log = logging.getLogger("foretold")


@dataclass(slots=True, eq=False)
class _Ticket:
    place: Place
    granted: asyncio.Future[None]


class Pool:
    """All of it belongs to one event loop.  `which` is a model in one revision; its first is called by its name."""

    def __init__(
        self,
        members: Iterable[Member],
        *,
        budget_bytes: int,
        tallies: dict[str, Tally] | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ):
        """`tallies` are those of the models by name, which their hosts count in too.

        Raises ModelError, with both numbers, for a model that could never be loaded.
        """
        self.budget_bytes = budget_bytes
        self._now_s = now_s
        self.tallies: dict[str, Tally] = {} if tallies is None else tallies
        self._places: dict[str, Place] = {}
        for member in members:
            name = member.manifest.name
            self._places[name] = Place(name, member, self.tallies.setdefault(name, Tally()))
        told = refusals(
            ((p.member.manifest, p.member.is_pinned) for p in self._places.values()), budget_bytes=budget_bytes
        )
        if told:
            raise ModelError("; ".join(told))
        self._asked = {place.name: place for place in self._places.values()}
        self._waiting: dict[_Ticket, None] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._numbers = itertools.count(2)
        self._is_stopped = False
        # Told of a replaced revision once nothing of it is here any more.
        self.on_gone: Callable[[str], None] = lambda which: None

    @property
    def loads(self) -> int:
        """How often something was loaded; `unloads` how often it was unloaded again."""
        return sum(tally.loads for tally in self.tallies.values())

    @property
    def unloads(self) -> int:
        return sum(tally.unloads for tally in self.tallies.values())

    @property
    def taken_bytes(self) -> int:
        """What the models that are here are predicted to take."""
        return together(r.size for r in self._residents())

    @property
    def count_here(self) -> int:
        """How many models share the machine now."""
        return sum(place.state is not State.AWAY for place in self._places.values())

    async def begin(self) -> None:
        """Loads those that are to be there from the start, as far as there is room.  Raises ModelError."""
        first = sorted(
            (p for p in self._places.values() if p.member.is_pinned or p.member.starts_first),
            key=lambda place: not place.member.is_pinned,
        )
        for place in first:
            if isinstance(decide(self._residents(), place.size, budget_bytes=self.budget_bytes), Fits):
                await self.load(place.which)

    async def acquire(self, which: str) -> None:
        """Returns once the model has room and a free slot; `release` gives the slot back.

        Raises OriginBusy if too many wait already, OriginReplaced for a revision that is asked no more.
        """
        if self._is_stopped:
            raise OriginUnready(f"model {which!r} is not started any more: this node is stopping")
        place = self._places.get(which)
        if place is None or place.standing is Standing.REPLACED:
            raise _replaced(which)
        ahead = sum(ticket.place is place for ticket in self._waiting)
        ticket = _Ticket(place, asyncio.get_running_loop().create_future())
        self._waiting[ticket] = None
        self.look()
        if ticket in self._waiting and ahead >= place.member.queue:
            del self._waiting[ticket]
            self.look()
            raise OriginBusy(
                f"model {place.name!r} makes {place.member.manifest.parallel} answers at once, and {ahead} more wait"
                " already: ask again in a moment"
            )
        try:
            await ticket.granted
        except asyncio.CancelledError:
            if _was_granted(ticket):
                self.release(which)
            else:
                self._waiting.pop(ticket, None)
                self.look()
            raise

    def release(self, which: str, keep_alive_s: float | None = None) -> None:
        """Gives a slot back.  `keep_alive_s` is how long the model is kept, if it is idle then, instead of as usual."""
        place = self._places[which]
        place.answering -= 1
        place.used(now_s=self._now_s(), keep_alive_s=keep_alive_s)
        self.look()

    async def load(self, which: str, keep_alive_s: float | None = None) -> None:
        """Returns once it is loaded.  Raises ModelError, OriginBusy or OriginUnready."""
        await self.acquire(which)
        try:
            await self._places[which].member.host.start()
        finally:
            self.release(which, keep_alive_s)

    async def unload(self, name: str) -> None:
        """Unloads it, pinned or not; where it answers, as soon as it is done: then this returns at once."""
        place = self._asked[name]
        if place.state is State.HERE:
            place.is_unwanted = True
            self.look()
        if place.leaving is not None:
            await asyncio.wait([place.leaving])

    def asked(self, name: str) -> str:
        """Which revision of a model is asked."""
        return self._asked[name].which

    def is_here(self, which: str) -> bool:
        place = self._places.get(which)
        return place is not None and place.state is State.HERE

    def add(self, member: Member) -> str:
        """Takes another revision of a model that may be loaded from now on, and says which it is."""
        which = f"{member.manifest.name} {next(self._numbers)}"
        tally = self._asked[member.manifest.name].tally
        self._places[which] = Place(which, member, tally, standing=Standing.COMING)
        return which

    def bring_back(self, which: str) -> bool:
        """Lets a replaced revision come again; False if nothing of it is here any more."""
        place = self._places.get(which)
        if place is not None:
            place.standing = Standing.COMING
        return place is not None

    def ask(self, which: str) -> None:
        """From now on this revision of its model is asked.  The other ends its answers and goes; who waits for it is told."""
        place = self._places[which]
        before, self._asked[place.name] = self._asked[place.name], place
        place.standing = Standing.ASKED
        place.tally.promotions += 1
        self.let_go(before.which)

    def let_go(self, which: str) -> None:
        """A revision is asked no more, or will never be."""
        place = self._places[which]
        place.standing = Standing.REPLACED
        for ticket in [ticket for ticket in self._waiting if ticket.place is place]:
            del self._waiting[ticket]
            if not ticket.granted.done():
                ticket.granted.set_exception(_replaced(which))
        self.look()
        self._forget(place)

    def look(self) -> None:
        """Does what can be done now.  Called whenever something has changed, and when an idle model expires."""
        if self._is_stopped:
            return
        self._serve_those_who_wait()
        for place in list(self._places.values()):
            if place.is_to_go:
                self._unload(place)
        for which in expired(self._residents(), now_s=self._now_s()):
            self._unload(self._places[which])
        self._set_alarm()

    async def stop(self) -> None:
        """Unloads all, whatever they do; who waits is told so."""
        self._is_stopped = True
        if self._alarm is not None:
            self._alarm.cancel()
        for ticket in self._waiting:
            if not ticket.granted.done():
                ticket.granted.set_exception(OriginUnready("this node is stopping"))
        self._waiting.clear()
        places = list(self._places.values())
        leaving = [place.leaving for place in places if place.leaving is not None]
        await asyncio.gather(*leaving, *(place.member.host.stop() for place in places))
        for place in places:
            place.state = State.AWAY

    def told(self) -> list[dict[str, Any]]:
        """Every model, for whoever runs the node; of one that changes its revision also the others that are here."""
        self.look()  # a process may have died meanwhile
        rows = []
        for place in self._asked.values():
            others = [p for p in self._places.values() if p.name == place.name and p is not place]
            rows.append(
                self._told(place)
                | {
                    "counts": dataclasses.asdict(place.tally),
                    "others": [self._told(other) | {"standing": other.standing.value} for other in others],
                }
            )
        return rows

    def state_of(self, name: str) -> str:
        return str(self._told(self._asked[name])["state"])

    def _serve_those_who_wait(self) -> None:
        # Whoever comes now must wait: they have to make room for one who came earlier.
        held = {place.which for place in self._places.values() if place.is_unwanted}
        is_room_awaited = False
        # Until a model that comes back has its room again, others get only what is free beside it.
        is_return_awaited = False
        for ticket in list(self._waiting):
            place = ticket.place
            if ticket.granted.done():  # whoever asked has left, and doesn't know it yet
                continue
            match place.state:
                case State.HERE:
                    if place.which not in held and place.answering < place.member.manifest.parallel:
                        self._grant(ticket)
                case State.LEAVING:
                    is_return_awaited = True
                case State.AWAY if not is_room_awaited:
                    decision = decide(self._residents_for(place), place.size, budget_bytes=self.budget_bytes)
                    if is_return_awaited and not isinstance(decision, Fits):
                        is_room_awaited = True
                    else:
                        is_room_awaited = not self._make_room(ticket, decision, held)

    def _make_room(self, ticket: _Ticket, decision: Decision, held: set[str]) -> bool:
        """Whether nobody has to wait for the room of this one any more; who would keep it from him is `held`."""
        place = ticket.place
        match decision:
            case Fits():
                place.state = State.HERE
                place.tally.loads += 1
                self._grant(ticket)
                return True
            case Evict(names):
                for which in names:
                    self._places[which].tally.evictions += 1
                    self._unload(self._places[which])
            case Wait(names):
                held.update(names)
            case Never() as never:
                del self._waiting[ticket]
                why = ModelError(why_never(place.name, place.member.manifest, never))
                error = OriginUnready(f"model {place.name!r} has no room on this node: its log says why")
                error.__cause__ = why
                ticket.granted.set_exception(error)
                return True
        return False

    def _grant(self, ticket: _Ticket) -> None:
        del self._waiting[ticket]
        ticket.place.answering += 1
        ticket.place.last_used_s = self._now_s()
        ticket.granted.set_result(None)

    def _unload(self, place: Place) -> None:
        place.state = State.LEAVING
        place.is_unwanted = False
        place.leaving = asyncio.create_task(self._leave(place))

    async def _leave(self, place: Place) -> None:
        try:
            await place.member.host.stop()
        except Exception:  # noqa: BLE001 - a fault of ours must not keep its room for ever: logged whole
            _log.exception("model %r could not be stopped in order", place.name)
        place.state, place.leaving = State.AWAY, None
        place.tally.unloads += 1
        self.look()
        self._forget(place)

    def _forget(self, place: Place) -> None:
        if place.standing is Standing.REPLACED and place.state is State.AWAY and place.which in self._places:
            del self._places[place.which]
            self.on_gone(place.which)

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        expiry_s = next_expiry_s(self._residents())
        if expiry_s < math.inf:
            self._alarm = asyncio.get_running_loop().call_later(max(0.0, expiry_s - self._now_s()), self.look)

    def _residents(self) -> list[Resident]:
        return [place.resident() for place in self._places.values() if place.state is not State.AWAY]

    def _residents_for(self, place: Place) -> list[Resident]:
        """As the model sees them whose room is wanted: one that is coming takes the room of the one it replaces."""
        if place.standing is not Standing.COMING:
            return self._residents()
        return making_way(self._residents(), self._asked[place.name].which)

    def _told(self, place: Place) -> dict[str, Any]:
        waiting = sum(ticket.place is place for ticket in self._waiting)
        return place.told(now_s=self._now_s(), waiting=waiting)


def _replaced(which: str) -> OriginReplaced:
    return OriginReplaced(f"model {which!r} has another revision now: ask again")


def _was_granted(ticket: _Ticket) -> bool:
    return ticket.granted.done() and not ticket.granted.cancelled() and ticket.granted.exception() is None


class PoolSlots:
    """The slots of one model in one revision (origins.local.Slots)."""

    def __init__(self, pool: Pool, which: str):
        self._pool = pool
        self._which = which

    async def acquire(self) -> None:
        await self._pool.acquire(self._which)

    def release(self, keep_alive_s: float | None = None) -> None:
        self._pool.release(self._which, keep_alive_s)
