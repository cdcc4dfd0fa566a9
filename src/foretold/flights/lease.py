"""Whose turn it is to fly for a key, among the processes of one machine (rule L2): the port, and a process alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from foretold.flights.flight import Flight, Landing
from foretold.ports import Incoming


class Following(Protocol):
    """A flight of another process, as one of this: where its answer comes from, and where it lands."""

    @property
    def landing(self) -> Landing: ...

    async def fetch(self) -> Incoming:
        """Its answer, once its first bytes are here.  Raises LeaderLost, or the error it ended with."""
        ...

    def aboard(self, flight: Flight) -> None:
        """Which flight of this process it is."""
        ...


class Turn(Protocol):
    """`is_taken`: it was just taken, and what another process kept meanwhile may lie in a tier that was asked before.

    Whoever has a turn leads, gives it back or follows; nothing may be awaited before that.
    """

    @property
    def is_taken(self) -> bool: ...

    def follow(self, namespace: str, *, owner: str, usage: bool) -> Following | None:
        """The flight of another process, or None where this one flies; what it brings counts to the owner's share."""
        ...

    def lead(self, flight: Flight, namespace: str, *, tags: dict[str, str]) -> None:
        """This flight is the one for the key; `tags` are those of what lands."""
        ...

    def give_back(self) -> None: ...


class Lease(Protocol):
    def turn(self, key: str) -> Turn: ...

    @property
    def following(self) -> int:
        """How many flights of this process are those of others."""
        ...

    async def open(self, forget: Callable[[str], Awaitable[object]]) -> None:
        """From now on others can follow; `forget` is called with the keys they purge.  Raises StoreError."""
        ...

    async def announce(self, key: str | None) -> None:
        """Tells all processes that a key, or for None some tag, was purged; returns when they know, or after a second."""
        ...

    async def close(self) -> None: ...


class _Alone:
    """Flies by itself and tells nobody."""

    is_taken = False
    following = 0

    def turn(self, key: str) -> Turn:
        return self

    def follow(self, namespace: str, *, owner: str, usage: bool) -> Following | None:
        return None

    def lead(self, flight: Flight, namespace: str, *, tags: dict[str, str]) -> None: ...

    def give_back(self) -> None: ...

    async def open(self, forget: Callable[[str], Awaitable[object]]) -> None: ...

    async def announce(self, key: str | None) -> None: ...

    async def close(self) -> None: ...


ALONE = _Alone()
