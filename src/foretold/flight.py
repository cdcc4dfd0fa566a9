"""One run of an origin for a key, shared by all who ask meanwhile.

The flight owns its task: callers come and go, and it is cancelled only when nobody is aboard.  Riders read one
buffer, each at its own place, so that a late one gets what has come at once and the rest live.  What is landed (kept)
is landed before any rider sees the end, so that whoever asks next finds it; from then on no flight of the key that
began earlier lands, which would bring an older answer back.  An answer too long to be shared goes on
for those aboard, at the pace of the slowest; whoever reads nothing of it for a while is put off, so that nobody can
hold up the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

from foretold.buffer import Buffer
from foretold.errors import ForetoldError, OriginCut, OriginError
from foretold.ports import Incoming
from foretold.reshaping import Shapes

SHARED_BUFFER_BYTES = 8 * 1024 * 1024
AHEAD_BYTES = 256 * 1024
LONGEST_WHOLE_BYTES = 32 * 1024 * 1024
PATIENCE_S = 30.0

_log = logging.getLogger("foretold")


class Landing(Protocol):
    """Where the answer of a flight goes when it has ended."""

    def is_open(self) -> bool:
        """Whether what lands may still be kept; False once it was shut or anything it belongs to purged."""
        ...

    def admits(self, incoming: Incoming) -> bool:
        """Whether it may be kept if it ends cleanly, as far as its head tells."""
        ...

    async def land(self, incoming: Incoming, body: bytes) -> str | None:
        """Keeps an answer that ended cleanly; None if it was kept, else why not."""
        ...

    def shut(self) -> None:
        """From now on nothing that lands is kept: its key was purged."""
        ...

    def supersede(self) -> None:
        """From now on nothing that lands is kept: a flight of its key that began later has landed."""
        ...


class Flight:
    def __init__(
        self,
        key: str,
        take_off: Callable[[], Awaitable[Incoming]],
        landing: Landing,
        *,
        landed: Callable[[Flight], None],
        finishes_alone: bool,
        tells_usage: bool,
        patience_s: float = PATIENCE_S,
    ):
        """`landed` is told at once when its answer is kept."""
        self.key = key
        self.incoming: Incoming | None = None
        self.error: ForetoldError | None = None
        self.ended = False
        self.why_not_kept: str | None = None
        self.given_up = False
        self.tells_usage = tells_usage
        self._finishes_alone = finishes_alone
        self._patience_s = patience_s
        self.riders: set[Ride] = set()
        self._take_off = take_off
        self._landed = landed
        self.landing = landing
        self.shapes = Shapes()
        self._buffer = Buffer()
        # Of an answer that is wanted whole and too long for the buffer; once for all who want it.
        self._gathered = Buffer()
        self._caught_up = asyncio.Event()
        self.task = asyncio.create_task(self._fly())

    @property
    def is_whole(self) -> bool:
        """Whether its buffer still holds all that has come of the answer."""
        return self._buffer.is_whole and self._buffer.came_bytes <= SHARED_BUFFER_BYTES

    @property
    def landed_whole(self) -> bool:
        """Whether it ended well and its buffer holds all of the answer."""
        return self.ended and self.error is None and self.is_whole

    @property
    def body(self) -> bytes:
        """All that has come of an answer whose buffer is whole."""
        return self._buffer.joined()

    def gather(self, place: int, chunk: bytes) -> None:
        """A rider who wants all of the answer read a chunk; whoever reads a place first keeps it for the others.

        Raises OriginError if that is more than can be given in another shape.
        """
        if place == self._gathered.end:
            self._gathered.add(chunk)
        _raise_if_too_long(self._gathered.came_bytes)

    @property
    def gathered(self) -> bytes:
        """All of an answer that has ended and was gathered: the same bytes for everybody."""
        return self.body if self.is_whole else self._gathered.joined()

    @property
    def held_bytes(self) -> int:
        return self._buffer.held_bytes

    @property
    def can_be_joined(self) -> bool:
        return self.is_whole and not self.ended and not self.given_up and self.landing.is_open()

    def board(self) -> Ride:
        ride = Ride(self)
        self.riders.add(ride)
        return ride

    def left(self, ride: Ride) -> None:
        self.riders.discard(ride)
        self.moved_on()
        if not self.riders and not self.ended and not self._finishes_alone:
            self.given_up = True
            self.task.cancel()

    def chunk(self, place: int) -> bytes | None:
        """The chunk at a place, if it is here."""
        return self._buffer.at(place)

    def moved_on(self) -> None:
        """A rider read a chunk or left: an overlong flight forgets what all have read."""
        if self.is_whole:
            return
        slowest = min((r.place for r in self.riders), default=self._buffer.end)
        if self._buffer.forget_before(slowest):
            self._caught_up.set()

    async def _fly(self) -> None:
        try:
            self.incoming = await self._take_off()
            self._tell()
            async for chunk in self.incoming.chunks():
                self._buffer.add(chunk)
                self._tell()
                if not self.is_whole:
                    await self._wait_for_riders()
            if self.is_whole:
                self.why_not_kept = await self._land(self.incoming)
            else:
                self.why_not_kept = "too-long"
        except ForetoldError as e:
            self.error = e
        except asyncio.CancelledError:
            self.error = OriginCut("the query was given up because nobody waited for it")
            raise
        except Exception:  # noqa: BLE001 - a fault of ours must not leave riders waiting: told, and logged whole
            _log.exception("a flight failed")
            self.error = OriginError("the answer could not be fetched because of a fault in Foretold")
        finally:
            self.ended = True
            self._tell()
            if self.incoming is not None:
                await self.incoming.close()

    async def _land(self, incoming: Incoming) -> str | None:
        """As Landing.land; a fault of ours in keeping an answer takes it from nobody: told in the log, whole."""
        try:
            why_not = await self.landing.land(incoming, self.body)
            if why_not is None:
                self._landed(self)
            return why_not
        except Exception:  # noqa: BLE001 - whatever it is, the answer is here and riders wait for it
            _log.exception("an answer could not be kept")
            return "fault"

    async def _wait_for_riders(self) -> None:
        """Holds the origin back while the slowest rider of an overlong answer is far behind."""
        self.moved_on()
        while self.riders and self._buffer.held_bytes > AHEAD_BYTES:
            self._caught_up.clear()
            places = {ride: ride.place for ride in self.riders}
            try:
                async with asyncio.timeout(self._patience_s):
                    await self._caught_up.wait()
            except TimeoutError:
                self._put_off([r for r in self.riders if r.place == places.get(r) and r.place < self._buffer.end])

    def _put_off(self, idle: list[Ride]) -> None:
        """Goes on without those who read nothing for so long.  Raises OriginCut if nobody is left to go on for."""
        for ride in idle:
            ride.put_off = OriginCut(
                f"nothing of the answer was read for {self._patience_s:g} s while more of it waited, so it goes on"
                " without this caller: ask again and read on"
            )
            self.riders.discard(ride)
            ride.news.set()
        self.moved_on()
        if not self.riders and not self._finishes_alone:
            self.given_up = True
            raise OriginCut("the query was given up because nobody read its answer")

    def _tell(self) -> None:
        for ride in self.riders:
            ride.news.set()


class Ride:
    """One caller's seat in a flight.  Whoever boards must leave."""

    def __init__(self, flight: Flight):
        self.flight = flight
        self.place = 0
        self.news = asyncio.Event()
        self.put_off: OriginCut | None = None

    async def head(self) -> Incoming:
        """The answer's head; raises what kept it from coming."""
        while self.flight.incoming is None:
            self._raise_if_failed()
            await self._wait()
        return self.flight.incoming

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes; raises OriginError if it breaks off."""
        while True:
            if self.put_off is not None:
                raise self.put_off
            chunk = self.flight.chunk(self.place)
            if chunk is not None:
                self.place += 1
                self.flight.moved_on()
                yield chunk
            elif self.flight.ended:
                self._raise_if_failed()
                return
            else:
                await self._wait()

    async def whole(self) -> bytes:
        """All of the body, the same bytes for all aboard, of which nothing was read yet.

        Raises OriginError if it breaks off or is too long to be held.
        """
        async for chunk in self.chunks():
            self.flight.gather(self.place - 1, chunk)
        return self.flight.gathered

    async def leave(self) -> None:
        self.flight.left(self)

    async def _wait(self) -> None:
        self.news.clear()
        await self.news.wait()

    def _raise_if_failed(self) -> None:
        if self.flight.error is not None:
            raise self.flight.error


async def collected(chunks: AsyncIterator[bytes]) -> bytes:
    """All chunks as one; raises OriginError if they are more than can be given in another shape."""
    got, size = [], 0
    async for chunk in chunks:
        size += len(chunk)
        _raise_if_too_long(size)
        got.append(chunk)
    return b"".join(got)


def _raise_if_too_long(size: int) -> None:
    if size > LONGEST_WHOLE_BYTES:
        raise OriginError(
            f"the answer is longer than {LONGEST_WHOLE_BYTES} bytes: too long to be given in another shape"
        )


class Flights:
    """The flights in the air, by key."""

    def __init__(self, *, patience_s: float = PATIENCE_S) -> None:
        """`patience_s`: how long a rider may read nothing of an overlong answer while others wait for it."""
        self._patience_s = patience_s
        self._by_key: dict[str, Flight] = {}
        self._all: set[Flight] = set()
        # All of a key, in the order in which they began; only the last may be joined.
        self._aloft: dict[str, list[Flight]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def join(self, key: str, *, usage: bool) -> Ride | None:
        """A seat in the flight for a key, if there is one that can still be joined and tells usage where wanted."""
        flight = self._by_key.get(key)
        if flight is None or not flight.can_be_joined or (usage and not flight.tells_usage):
            return None
        return flight.board()

    def start(
        self,
        key: str,
        take_off: Callable[[], Awaitable[Incoming]],
        landing: Landing,
        *,
        finishes_alone: bool,
        tells_usage: bool,
    ) -> Ride:
        """A seat in a new flight, which later callers of the key may join."""
        flight = Flight(
            key,
            take_off,
            landing,
            landed=self._landed,
            finishes_alone=finishes_alone,
            tells_usage=tells_usage,
            patience_s=self._patience_s,
        )
        self._by_key[key] = flight
        self._aloft.setdefault(key, []).append(flight)
        # The set keeps the task alive: the loop itself refers to tasks only weakly.
        self._all.add(flight)
        flight.task.add_done_callback(lambda _: self._ended(key, flight))
        return flight.board()

    def forget(self, key: str) -> None:
        """Whatever is in the air for a key goes to those aboard and is not kept."""
        self._by_key.pop(key, None)
        for flight in self._aloft.get(key, ()):
            flight.landing.shut()

    async def close(self) -> None:
        """Cancels all that still fly."""
        flying = [flight.task for flight in self._all]
        for task in flying:
            task.cancel()
        await asyncio.gather(*flying, return_exceptions=True)

    def _landed(self, flight: Flight) -> None:
        """Those who began before a flight whose answer was kept no longer land."""
        for older in self._aloft[flight.key]:
            if older is flight:
                return
            older.landing.supersede()

    def _ended(self, key: str, flight: Flight) -> None:
        self._all.discard(flight)
        flights = self._aloft[key]
        flights.remove(flight)
        if not flights:
            del self._aloft[key]
        if self._by_key.get(key) is flight:
            del self._by_key[key]
