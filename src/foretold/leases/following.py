"""The follower's side: another process's flight, as one of this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from socket import socket

from foretold.contract.generations import is_alive
from foretold.errors import LeaderLost
from foretold.fault import error_of
from foretold.flights.flight import Flight
from foretold.leases.frames import (
    MAGIC,
    Ask,
    Beat,
    Broken,
    Chunk,
    End,
    Failed,
    Frame,
    Head,
    Joined,
    Refused,
    read,
    written,
)
from foretold.ports import Generations, Incoming

SILENCE_S = 3.0


class Followed:
    """The answer of another process's flight; also where it lands here (lease.Following, flight.Landing).

    Nothing of it is kept anew: the leader keeps it, and sends the sealed head of its record, which is put into this
    process's memory as if it had come up from disk.
    """

    is_proven = True

    def __init__(
        self,
        ask: Ask,
        connect: Callable[[], socket],
        *,
        generations: Generations,
        bring_up: Callable[[bytes, str, str], bool],
        aboard: Callable[[Flight], None],
        silent: Callable[[], None],
        freed: Callable[[], Awaitable[None]],
        silence_s: float = SILENCE_S,
    ):
        """`connect` opens a connection to the leader; `aboard` hears of the flight here, `silent` of a leader that says
        nothing for `silence_s`; `freed` returns once the turn of one that is gone can be taken.
        """
        self._ask = ask
        self._connect = connect
        self._generations = generations
        self._bring_up = bring_up
        self._aboard = aboard
        self._silent = silent
        self._freed = freed
        self._silence_s = silence_s
        self._flight: Flight | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._head: Head | None = None
        self._first: Frame | None = None
        self._end: End | None = None
        self._tags: Mapping[str, str] | None = None
        self._alive_under = 0
        self._is_shut = False

    @property
    def landing(self) -> Followed:
        return self

    def aboard(self, flight: Flight) -> None:
        self._flight = flight
        self._aboard(flight)

    async def fetch(self) -> Incoming:
        try:
            await self._join()
            head = await self._next(Head)
            assert isinstance(head, Head)
            first = await self._next(Chunk, End)
            self._head, self._first = head, first
        except BaseException:
            await self.close()
            raise
        return self

    @property
    def status(self) -> int:
        return self._its_head.status

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        return self._its_head.headers

    @property
    def length(self) -> int | None:
        return self._its_head.length

    @property
    def is_fallback(self) -> bool:
        return self._its_head.is_fallback

    @property
    def why_not(self) -> str | None:
        return None if self._end is None else self._end.why_not_kept

    async def chunks(self) -> AsyncIterator[bytes]:
        frame = self._first
        while isinstance(frame, Chunk):
            yield frame.body
            frame = await self._next(Chunk, End)
        assert isinstance(frame, End)
        self._end = frame

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def is_open(self) -> bool:
        """Whether no tag of it was purged as far as we know; what has not told its tags yet is checked when it does."""
        generations = self._generations.now()
        if self._tags is None:
            return not self._is_shut
        if self._alive_under != generations.epoch and is_alive(self._tags, generations):
            self._alive_under = generations.epoch
        return not self._is_shut and self._alive_under == generations.epoch

    def shut(self) -> None:
        self._is_shut = True

    def supersede(self) -> None:
        self._is_shut = True

    def admits(self, incoming: Incoming) -> bool:
        return self._its_head.is_admitted

    async def land(self, incoming: Incoming, body: bytes) -> str | None:
        assert self._end is not None
        if self._end.why_not_kept is None and self._end.record_head and self.is_open():
            self._bring_up(self._end.record_head + body, self._ask.key, self._ask.namespace)
        return self._end.why_not_kept

    @property
    def _its_head(self) -> Head:
        assert self._head is not None
        return self._head

    async def _join(self) -> None:
        """Raises LeaderLost."""
        try:
            sock = self._connect()
        except BlockingIOError:
            raise LeaderLost("the process that fetches this answer takes no more connections", alone=True) from None
        except OSError:
            await self._freed()
            raise LeaderLost("the process that fetched this answer is gone") from None
        self._reader, self._writer = await asyncio.open_unix_connection(sock=sock)
        self._writer.write(MAGIC + written(self._ask))
        told = await self._next(Joined, Refused)
        if isinstance(told, Refused):
            raise LeaderLost("the process that fetches this answer does not share it", alone=not told.may_change)
        assert isinstance(told, Joined)
        self._tags = told.tags
        if not self.is_open():
            raise LeaderLost("the answer that is being fetched was purged meanwhile", alone=True)
        if self._flight is not None:
            self._flight.tells_usage = told.tells_usage

    async def _next(self, *kinds: type[Frame]) -> Frame:
        """The next frame but beats, which must be of one of these kinds.

        Raises LeaderLost, or the error that the flight ended with.
        """
        assert self._reader is not None
        try:
            while True:
                async with asyncio.timeout(self._silence_s):
                    frame = await read(self._reader)
                if not isinstance(frame, Beat):
                    break
        except TimeoutError:
            self._silent()
            raise LeaderLost(
                f"the process that fetches this answer has said nothing for {self._silence_s:g} s", alone=True
            ) from None
        except (OSError, asyncio.IncompleteReadError):
            raise LeaderLost("the process that fetched this answer ended before its end") from None
        except Broken:
            raise LeaderLost("the process that fetches this answer is of another version", alone=True) from None
        if isinstance(frame, Failed):
            raise error_of(frame.fault)
        if not isinstance(frame, kinds):
            raise LeaderLost("the process that fetches this answer is of another version", alone=True)
        return frame
