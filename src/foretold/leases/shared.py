"""The lease between the processes that have one data folder (lease.Lease)."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from foretold.errors import StoreError
from foretold.flights.flight import Flight
from foretold.flights.lease import ALONE, Following, Turn
from foretold.leases.following import SILENCE_S, Followed
from foretold.leases.frames import MAGIC, Ask, Broken, Done, Frame, Purged, Refused, read, read_first, written
from foretold.leases.hosting import can_be_followed, host
from foretold.leases.locks import Locks, Slot, place_of
from foretold.leases.sockets import Sockets, check_peer
from foretold.ports import Generations
from foretold.tiers.keeping import Keeping
from foretold.tiers.order import Tiers

ANNOUNCE_S = 1.0
# Whoever was silent is not asked again for so long: each caller would wait in vain.
SHUNNED_S = 10.0
# The kernel closes the sockets of a process that ends before it frees its locks: half a second is waited for that.
FREED_LOOKS = 100
_LOOK_S = 0.005


class SharedLease:
    def __init__(
        self, folder: Path, tiers: Tiers, keeping: Keeping, *, generations: Generations, silence_s: float = SILENCE_S
    ):
        """Opens the folder, which all processes of the data folder share.  Raises StoreError."""
        self.following = 0
        self._tiers = tiers
        self._keeping = keeping
        self._generations = generations
        self._silence_s = silence_s
        self._led: dict[int, _Led] = {}
        self._shunned_until_s: dict[int, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._is_closed = False
        self._forget: Callable[[str], Awaitable[object]] | None = None
        try:
            self._sockets = Sockets(folder)
            self._slot = Slot(folder)
            self._locks = Locks(folder, self._slot.number)
        except OSError as e:
            raise StoreError(f"the folder {folder} for shared flights can't be used: {e.strerror or e}") from None

    @property
    def slot(self) -> int:
        return self._slot.number

    async def open(self, forget: Callable[[str], Awaitable[object]]) -> None:
        self._forget = forget
        try:
            for number in self._sockets.slots():
                if number != self.slot and self._slot.is_free(number):
                    self._sockets.remove(number)
            sock = self._sockets.listen(self.slot)
        except OSError as e:
            raise StoreError(f"the socket for shared flights can't be made: {e.strerror}") from None
        self._server = await asyncio.start_unix_server(self._connected, sock=sock)

    def turn(self, key: str) -> Turn:
        place = place_of(key)
        if place in self._led or self._is_closed:
            return ALONE  # another key of the same place, or a flight that this one could not join
        try:
            holder = self._locks.take(place)
        except OSError:
            return ALONE  # no room for locks: then each process flies for itself
        if holder is None:
            return _Led(self, key, place)
        if self._shunned_until_s.get(holder, 0.0) > time.monotonic():
            return ALONE
        return _Elsewhere(self, key, holder)

    async def announce(self, key: str | None) -> None:
        others = [number for number in self._sockets.slots() if number != self.slot]
        await asyncio.gather(*(self._announce_to(number, key) for number in others))

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._server is not None:
            self._server.close()
            self._sockets.remove(self.slot)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._locks.close()
        self._sockets.close()
        self._slot.close()

    def led(self, turn: _Led) -> None:
        self._led[turn.place] = turn

    def release(self, turn: _Led) -> None:
        if self._led.get(turn.place) in (turn, None) and not self._is_closed:
            self._led.pop(turn.place, None)
            self._locks.release(turn.place)

    def settle(self, turn: _Led) -> None:
        """Gives a turn back once its record lies where all processes find it: until then they get it from us."""
        self._keep(self._settle(turn))

    def followed(self, ask: Ask, holder: int, *, owner: str) -> Followed:
        return Followed(
            ask,
            functools.partial(self._sockets.connect, holder),
            generations=self._generations,
            bring_up=functools.partial(self._tiers.bring_up, owner=owner),
            aboard=self._count,
            silent=functools.partial(self._shun, holder),
            freed=functools.partial(self._freed, place_of(ask.key), holder),
            silence_s=self._silence_s,
        )

    async def _freed(self, place: int, holder: int) -> None:
        """Else all who followed would find the turn taken again and again, and each fly alone."""
        for _ in range(FREED_LOOKS):
            with contextlib.suppress(OSError):
                if self._is_closed or self._locks.holder(place) != holder:
                    return
            await asyncio.sleep(_LOOK_S)

    async def _settle(self, turn: _Led) -> None:
        try:
            await self._keeping.settled(turn.key)
        finally:
            self.release(turn)

    def _count(self, flight: Flight) -> None:
        self.following += 1
        flight.task.add_done_callback(self._discount)

    def _discount(self, task: asyncio.Task[None]) -> None:
        self.following -= 1

    def _shun(self, holder: int) -> None:
        self._shunned_until_s[holder] = time.monotonic() + SHUNNED_S

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            check_peer(writer.get_extra_info("socket"))
            async with asyncio.timeout(self._silence_s):
                asked = await read_first(reader)
            await self._answer(asked, reader, writer)
        except (OSError, Broken, asyncio.IncompleteReadError, TimeoutError):
            pass  # whoever asked sees the end, and flies by itself
        finally:
            writer.close()

    async def _answer(self, asked: Frame, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        match asked:
            case Ask():
                led = self._led.get(place_of(asked.key))
                if led is None or led.key != asked.key or led.namespace != asked.namespace or led.flight is None:
                    writer.write(written(Refused(may_change=True)))
                elif not can_be_followed(led.flight, usage=asked.usage):
                    writer.write(written(Refused(may_change=False)))
                else:
                    await host(led.flight, reader, writer, tags=led.tags, record_head=led.head_of)
            case Purged():
                self._generations.look()
                if asked.key is not None and self._forget is not None:
                    with contextlib.suppress(StoreError):  # whoever purges deletes from the disk too, and must know
                        await self._forget(asked.key)
                writer.write(written(Done()))
            case _:
                raise Broken("no question")
        await writer.drain()

    def record_head(self, flight: Flight) -> bytes:
        """The sealed head of what a flight has landed, while it is on its way to the disk."""
        blob = self._keeping.waiting(flight.key)
        return b"" if blob is None else blob[: len(blob) - flight.held_bytes]

    async def _announce_to(self, number: int, key: str | None) -> None:
        """A process that is gone, or stopped, is not waited for."""
        with contextlib.suppress(OSError, Broken, asyncio.IncompleteReadError, TimeoutError):
            sock = self._sockets.connect(number)
            reader, writer = await asyncio.open_unix_connection(sock=sock)
            try:
                writer.write(MAGIC + written(Purged(key)))
                async with asyncio.timeout(ANNOUNCE_S):
                    await read(reader)
            finally:
                writer.close()

    def _keep(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Led:
    """Our turn for a key, from the lock to its release."""

    is_taken = True

    def __init__(self, lease: SharedLease, key: str, place: int):
        self.key = key
        self.place = place
        self.namespace = ""
        self.tags: dict[str, str] = {}
        self.flight: Flight | None = None
        self._lease = lease
        self._record_head = b""

    def follow(self, namespace: str, *, owner: str, usage: bool) -> Following | None:
        return None

    def lead(self, flight: Flight, namespace: str, *, tags: dict[str, str]) -> None:
        self.flight, self.namespace, self.tags = flight, namespace, tags
        self._lease.led(self)
        flight.task.add_done_callback(self._ended)

    def give_back(self) -> None:
        self._lease.release(self)

    def head_of(self, flight: Flight) -> bytes:
        """The sealed head of the record that the flight became, if it is at hand."""
        return self._record_head or self._lease.record_head(flight)

    def _ended(self, task: asyncio.Task[None]) -> None:
        assert self.flight is not None
        if self.flight.landed_whole and self.flight.why_not_kept is None:
            self._record_head = self._lease.record_head(self.flight)
            self._lease.settle(self)
        else:
            self._lease.release(self)


class _Elsewhere:
    """Another process's turn."""

    is_taken = False

    def __init__(self, lease: SharedLease, key: str, holder: int):
        self._lease = lease
        self._key = key
        self._holder = holder

    def follow(self, namespace: str, *, owner: str, usage: bool) -> Following | None:
        return self._lease.followed(Ask(self._key, namespace, usage), self._holder, owner=owner)

    def lead(self, flight: Flight, namespace: str, *, tags: dict[str, str]) -> None:
        raise AssertionError("it is another process's turn")

    def give_back(self) -> None: ...
