"""All connections of a server: how many there may be, who goes when there are more, and who takes nothing any more.

A newcomer to a full house takes the place of whoever has waited longest without asking anything, so that silent
connections shut nobody out.  If all are busy it may come as far as the door, to hear that it should come later.
"""

from __future__ import annotations

import asyncio
import heapq
import socket
import struct
from collections.abc import Iterator
from typing import Protocol

# Whoever came just now has not had the time to ask.
GRACE_S = 1.0
# While nobody can be sent away, not every newcomer makes us look for somebody.
LOOK_AGAIN_S = 0.05
# So much of an answer a caller must take within the write time-out, if it is not all of it.
LEAST_TAKEN_BYTES = 64 * 1024

# Where Linux tells `tcpi_bytes_acked`, since 4.1 (linux/tcp.h).
_BYTES_ACKED, _TCP_INFO_BYTES = 120, 128


class Connection(Protocol):
    transport: asyncio.Transport

    def waiting_since_s(self) -> float | None:
        """Since when it waits for its caller, on the loop's clock; None while an answer is made."""
        ...

    def give_way(self) -> None:
        """Closes it in favour of another."""
        ...


class Crowd:
    def __init__(self, most: int, *, write_timeout_s: float):
        self.most = most
        self._write_timeout_s = write_timeout_s
        self._here: set[Connection] = set()
        self._leaving: set[Connection] = set()
        self._look_again_s = 0.0
        self._taken: dict[Connection, tuple[int, float]] = {}
        self._next_look: asyncio.TimerHandle | None = None

    @property
    def is_over(self) -> bool:
        return len(self._here) > self.most

    def enter(self, newcomer: Connection) -> None:
        self._here.add(newcomer)
        loop = asyncio.get_running_loop()
        if self._next_look is None:
            self._look_later(loop)
        if not self.is_over:
            return
        now_s = loop.time()
        if now_s >= self._look_again_s and not self._make_room(now_s):
            self._look_again_s = now_s + LOOK_AGAIN_S
        if len(self._here) > self.most + door_of(self.most):
            self._send_away(newcomer)

    def leave(self, connection: Connection) -> None:
        self._here.discard(connection)
        self._leaving.discard(connection)
        self._taken.pop(connection, None)

    def _make_room(self, now_s: float) -> bool:
        """Whether somebody had to go.  Some at a time, since each look is at everybody."""
        longest = heapq.nsmallest(max(1, self.most // 64), self._waiting(now_s), key=lambda waiting: waiting[0])
        for _, connection in longest:
            self._send_away(connection)
        return bool(longest)

    def _waiting(self, now_s: float) -> Iterator[tuple[float, Connection]]:
        for connection in self._here:
            since_s = connection.waiting_since_s()
            if since_s is not None and now_s - since_s >= GRACE_S:
                yield since_s, connection

    def _send_away(self, connection: Connection) -> None:
        self._here.discard(connection)
        self._leaving.add(connection)
        connection.give_way()

    def _look_later(self, loop: asyncio.AbstractEventLoop) -> None:
        self._next_look = loop.call_later(self._write_timeout_s / 4, self._drop_the_stalled, loop)

    def _drop_the_stalled(self, loop: asyncio.AbstractEventLoop) -> None:
        """One clock for all instead of one for each answer; those that are closing count too."""
        now_s = loop.time()
        for connection in (*self._here, *self._leaving):
            if not connection.transport.get_write_buffer_size():
                self._taken.pop(connection, None)
                continue
            taken = _taken_bytes(connection.transport)
            before, since_s = self._taken.setdefault(connection, (taken, now_s))
            if taken - before >= LEAST_TAKEN_BYTES:
                self._taken[connection] = (taken, now_s)
            elif now_s - since_s >= self._write_timeout_s:
                reset(connection.transport)
        self._next_look = None
        if self._here or self._leaving:
            self._look_later(loop)


def _taken_bytes(transport: asyncio.Transport) -> int:
    """What the caller's side has acknowledged so far; what we still hold is no measure, since more is added to it."""
    info = transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    acknowledged: int = struct.unpack_from("=Q", info, _BYTES_ACKED)[0]
    return acknowledged


def reset(transport: asyncio.Transport) -> None:
    """Ends a connection with all that is unsent, of which the kernel holds more than we do."""
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


def door_of(most: int) -> int:
    """How many may stand at the door of a full house."""
    return max(16, most // 4)
