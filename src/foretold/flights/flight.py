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
import copy
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

from foretold.answers.reshaping import Shapes
from foretold.contract.endings import Ending, ending
from foretold.errors import ForetoldError, OriginCut, OriginError, Refused, without_traces
from foretold.flights.buffer import Buffer
from foretold.ports import Incoming

SHARED_BUFFER_BYTES = 8 * 1024 * 1024
AHEAD_BYTES = 256 * 1024
LONGEST_WHOLE_BYTES = 32 * 1024 * 1024
PATIENCE_S = 30.0
# Not kept for reasons of ours: they say nothing of what the origin will answer next.
_OURS = frozenset({"queue-full", "over-share", "first-sight", "fault"})

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
        leaves: Callable[[Flight], None],
        patience_s: float = PATIENCE_S,
    ):
        """`landed` is told at once when its answer is kept; `leaves` is called when it has ended, before any rider sees
        that.
        """
        self.key = key
        self.incoming: Incoming | None = None
        self.error: ForetoldError | None = None
        self.ended = False
        self.why_not_kept: str | None = None
        self.given_up = False
        self.tells_usage = tells_usage
        self._finishes_alone = finishes_alone
        self._leaves = leaves
        self._patience_s = patience_s
        self.riders: set[Ride] = set()
        self._landed = landed
        self.landing = landing
        self.shapes = Shapes()
        self._buffer = Buffer()
        # Of an answer that is wanted whole and too long for the buffer; once for all who want it.
        self._gathered = Buffer()
        self._caught_up = asyncio.Event()
        self.task = asyncio.create_task(self._fly(take_off))

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

    @property
    def came_bytes(self) -> int:
        return self._buffer.came_bytes

    @property
    def head_bytes(self) -> int:
        return 0 if self.incoming is None else sum(len(name) + len(value) for name, value in self.incoming.headers)

    @property
    def ending(self) -> Ending | None:
        """How it ended; None where that says nothing of the origin: given up, or purged meanwhile."""
        if self.given_up or self.task.cancelling() or isinstance(self.error, Refused) or not self.landing.is_open():
            return None
        if self.incoming is None:
            lost = isinstance(self.error, OriginCut)
            return ending(status=502 if lost else None, clean=False, storable=False, sent_any=False, retried=True)
        return ending(
            status=self.incoming.status,
            clean=self.error is None,
            storable=self.why_not_kept is None or self.why_not_kept in _OURS,
            sent_any=True,
            retried=True,
            fallback=self.incoming.is_fallback,
        )

    @property
    def _is_an_error(self) -> bool:
        """An error goes to its end though nobody waits, so that it can be told to the next."""
        return self.incoming is not None and (self.incoming.status == 429 or self.incoming.status >= 500)

    def board(self, *, is_echo: bool = False) -> Ride:
        ride = Ride(self, is_echo=is_echo)
        self.riders.add(ride)
        return ride

    def left(self, ride: Ride) -> None:
        self.riders.discard(ride)
        self.moved_on()
        if not self.riders and not self.ended and not self._finishes_alone and not self._is_an_error:
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

    async def _fly(self, take_off: Callable[[], Awaitable[Incoming]]) -> None:
        try:
            self.incoming = await take_off()
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
            self.error = without_traces(e)
        except asyncio.CancelledError:
            self.error = OriginCut("the query was given up because nobody waited for it")
            raise
        except Exception:  # noqa: BLE001 - a fault of ours must not leave riders waiting: told, and logged whole
            _log.exception("a flight failed")
            self.error = OriginError("the answer could not be fetched because of a fault in Foretold")
        finally:
            self._leaves(self)
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
        if not self.riders and not self._finishes_alone:
            self.given_up = True
            raise OriginCut("the query was given up because nobody waited for it")
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
    """One caller's seat in a flight.  Whoever boards must leave.  An echo is one in a flight that had ended before."""

    def __init__(self, flight: Flight, *, is_echo: bool):
        self.flight = flight
        self.is_echo = is_echo
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
            raise self._own(self.flight.error)

    def _own(self, error: ForetoldError) -> ForetoldError:
        """One for each rider: what is raised again and again grows by all who raise it."""
        own = copy.copy(error)
        own.__cause__ = error.__cause__
        own.is_echo = self.is_echo
        return own


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
