"""The models of this machine: loaded when they are first wanted, kept while there is room, unloaded when there is none.

Whoever wants an answer of a model takes a slot of it.  One who wants a model that isn't here waits for its room; those
who come later for a model that must make this room wait behind him.  What goes is decided in room.py.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, Protocol

from foretold.errors import ModelError, OriginBusy, OriginUnready
from foretold.models.host import Door
from foretold.models.manifest import Manifest, revision
from foretold.models.room import (
    Decision,
    Evict,
    Fits,
    Never,
    Resident,
    Size,
    Wait,
    decide,
    expired,
    next_expiry_s,
    refusals,
    size_of,
    together,
    why_never,
)

_log = logging.getLogger("foretold")


class Runs(Protocol):
    """The process of a model (models/host.py)."""

    @property
    def is_running(self) -> bool: ...

    @property
    def is_starting(self) -> bool: ...

    async def start(self) -> Door: ...

    async def stop(self) -> None: ...


class Member(NamedTuple):
    """A model that may be loaded.  `keep_alive_s` below 0 keeps it until its room is wanted."""

    manifest: Manifest
    host: Runs
    queue: int
    keep_alive_s: float = -1
    is_pinned: bool = False
    starts_first: bool = False


class State(Enum):
    AWAY = "unloaded"
    HERE = "loaded"
    LEAVING = "unloading"


@dataclass(slots=True, eq=False)
class _Place:
    """What is so of a model just now.  `is_unwanted` says that it goes as soon as it is idle."""

    member: Member
    size: Size
    state: State = State.AWAY
    answering: int = 0
    last_used_s: float = 0.0
    expires_s: float = math.inf
    is_unwanted: bool = False
    leaving: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self.member.manifest.name


@dataclass(slots=True, eq=False)
class _Ticket:
    place: _Place
    granted: asyncio.Future[None]


class Pool:
    """All of it belongs to one event loop."""

    def __init__(self, members: Iterable[Member], *, budget_bytes: int, now_s: Callable[[], float] = time.monotonic):
        """Raises ModelError, with both numbers, for a model that could never be loaded."""
        self.budget_bytes = budget_bytes
        self._now_s = now_s
        self._places = {m.manifest.name: _Place(m, size_of(m.manifest)) for m in members}
        told = refusals(
            ((p.member.manifest, p.member.is_pinned) for p in self._places.values()), budget_bytes=budget_bytes
        )
        if told:
            raise ModelError("; ".join(told))
        self._waiting: dict[_Ticket, None] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._is_stopped = False
        # How often something was loaded and unloaded.
        self.loads = 0
        self.unloads = 0

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
                await self.load(place.name)

    async def acquire(self, name: str) -> None:
        """Returns once the model has room and a free slot; `release` gives the slot back.

        Raises OriginBusy if too many wait already.
        """
        if self._is_stopped:
            raise OriginUnready(f"model {name!r} is not started any more: this node is stopping")
        place = self._places[name]
        ahead = sum(ticket.place is place for ticket in self._waiting)
        ticket = _Ticket(place, asyncio.get_running_loop().create_future())
        self._waiting[ticket] = None
        self.look()
        if ticket in self._waiting and ahead >= place.member.queue:
            del self._waiting[ticket]
            self.look()
            raise OriginBusy(
                f"model {name!r} makes {place.member.manifest.parallel} answers at once, and {ahead} more wait already:"
                " ask again in a moment"
            )
        try:
            await ticket.granted
        except asyncio.CancelledError:
            if _was_granted(ticket):
                self.release(name)
            else:
                self._waiting.pop(ticket, None)
                self.look()
            raise

    def release(self, name: str, keep_alive_s: float | None = None) -> None:
        """Gives a slot back.  `keep_alive_s` is how long the model is kept, if it is idle then, instead of as usual."""
        place = self._places[name]
        place.answering -= 1
        self._used(place, place.member.keep_alive_s if keep_alive_s is None else keep_alive_s)
        self.look()

    async def load(self, name: str, keep_alive_s: float | None = None) -> None:
        """Returns once it is loaded.  Raises ModelError, OriginBusy or OriginUnready."""
        await self.acquire(name)
        try:
            await self._places[name].member.host.start()
        finally:
            self.release(name, keep_alive_s)

    async def unload(self, name: str) -> None:
        """Unloads it, pinned or not; where it answers, as soon as it is done: then this returns at once."""
        place = self._places[name]
        if place.state is State.HERE:
            place.is_unwanted = True
            self.look()
        if place.leaving is not None:
            await asyncio.wait([place.leaving])

    def look(self) -> None:
        """Does what can be done now.  Called whenever something has changed, and when an idle model expires."""
        if self._is_stopped:
            return
        self._serve_those_who_wait()
        for place in self._places.values():
            if place.state is State.HERE and not place.answering and (place.is_unwanted or _is_dead(place)):
                self._unload(place)
        for name in expired(self._residents(), now_s=self._now_s()):
            self._unload(self._places[name])
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
        leaving = [place.leaving for place in self._places.values() if place.leaving is not None]
        await asyncio.gather(*leaving, *(place.member.host.stop() for place in self._places.values()))
        for place in self._places.values():
            place.state = State.AWAY

    def told(self) -> list[dict[str, Any]]:
        """Every model, for whoever runs the node."""
        self.look()  # a process may have died meanwhile
        return [self._told(place) for place in self._places.values()]

    def state_of(self, name: str) -> str:
        return str(self._told(self._places[name])["state"])

    def _serve_those_who_wait(self) -> None:
        # Whoever comes now must wait: they have to make room for one who came earlier.
        held = {place.name for place in self._places.values() if place.is_unwanted}
        is_room_awaited = False
        # Until a model that comes back has its room again, others get only what is free beside it.
        is_return_awaited = False
        for ticket in list(self._waiting):
            place = ticket.place
            match place.state:
                case State.HERE:
                    if place.name not in held and place.answering < place.member.manifest.parallel:
                        self._grant(ticket)
                case State.LEAVING:
                    is_return_awaited = True
                case State.AWAY if not is_room_awaited:
                    decision = decide(self._residents(), place.size, budget_bytes=self.budget_bytes)
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
                self.loads += 1
                self._grant(ticket)
                return True
            case Evict(names):
                for name in names:
                    self._unload(self._places[name])
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

    def _used(self, place: _Place, keep_alive_s: float) -> None:
        place.last_used_s = self._now_s()
        place.expires_s = math.inf if keep_alive_s < 0 else place.last_used_s + keep_alive_s

    def _unload(self, place: _Place) -> None:
        place.state = State.LEAVING
        place.is_unwanted = False
        place.leaving = asyncio.create_task(self._leave(place))

    async def _leave(self, place: _Place) -> None:
        try:
            await place.member.host.stop()
        except Exception:  # noqa: BLE001 - a fault of ours must not keep its room for ever: logged whole
            _log.exception("model %r could not be stopped in order", place.name)
        place.state, place.leaving = State.AWAY, None
        self.unloads += 1
        self.look()

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        expiry_s = next_expiry_s(self._residents())
        if expiry_s < math.inf:
            self._alarm = asyncio.get_running_loop().call_later(max(0.0, expiry_s - self._now_s()), self.look)

    def _residents(self) -> list[Resident]:
        return list(self._all_residents())

    def _all_residents(self) -> Iterator[Resident]:
        for place in self._places.values():
            if place.state is not State.AWAY:
                yield Resident(
                    name=place.name,
                    size=place.size,
                    answering=place.answering,
                    last_used_s=place.last_used_s,
                    is_pinned=place.member.is_pinned,
                    is_leaving=place.state is State.LEAVING,
                    expires_s=place.expires_s,
                )

    def _told(self, place: _Place) -> dict[str, Any]:
        manifest, host = place.member.manifest, place.member.host
        state = place.state.value
        if place.state is State.HERE and place.is_unwanted:
            state = State.LEAVING.value
        elif place.state is State.HERE and not host.is_running:
            state = "loading"
        now_s = self._now_s()
        is_idle = place.state is State.HERE and not place.answering
        return {
            "name": place.name,
            "revision": revision(manifest),
            "state": state,
            "memory_bytes": place.size.total_bytes,
            "parallel": manifest.parallel,
            "answering": place.answering,
            "waiting": sum(ticket.place is place for ticket in self._waiting),
            "pinned": place.member.is_pinned,
            "idle_s": round(now_s - place.last_used_s, 1) if is_idle else None,
            "expires_in_s": round(max(0.0, place.expires_s - now_s), 1)
            if is_idle and not place.member.is_pinned and place.expires_s < math.inf
            else None,
        }


def _is_dead(place: _Place) -> bool:
    """Whether nothing runs of it: its load failed, or its process died."""
    return not place.member.host.is_running and not place.member.host.is_starting


def _was_granted(ticket: _Ticket) -> bool:
    return ticket.granted.done() and not ticket.granted.cancelled() and ticket.granted.exception() is None


class PoolSlots:
    """The slots of one model (origins.local.Slots)."""

    def __init__(self, pool: Pool, name: str):
        self._pool = pool
        self._name = name

    async def acquire(self) -> None:
        await self._pool.acquire(self._name)

    def release(self, keep_alive_s: float | None = None) -> None:
        self._pool.release(self._name, keep_alive_s)
