"""A far store that is told to hang, to refuse, to lie or to be full; without trouble it keeps the laws of stores."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

from foretold.errors import StoreError
from foretold.ports import Put
from foretold.stores.memory import MemoryStore

TROUBLES = ("hangs", "hangs and doesn't heed", "refuses", "lies", "has a fault")


class TroubledStore:
    """`asked` are the names of all gets that began; `trouble` is one of TROUBLES, "full" or none."""

    def __init__(self, limit_bytes: int = 2**24, *, now_ms: Callable[[], int], name: str = "far"):
        self.name = name
        self.trouble = ""
        self.asked: list[str] = []
        self._held = MemoryStore(limit_bytes, largest_bytes=2**20, now_ms=now_ms)

    @property
    def held_bytes(self) -> int:
        return self._held.held_bytes

    @property
    def limit_bytes(self) -> int:
        return self._held.limit_bytes

    def scan(self) -> Iterator[str]:
        return self._held.scan()

    async def get(self, name: str) -> bytes | None:
        self.asked.append(name)
        await self._trouble()
        if self.trouble == "lies":
            return b"no record at all"
        return await self._held.get(name)

    async def put(self, name: str, blob: bytes, *, keep_s: int) -> None:
        await self._trouble()
        if self.trouble == "full":
            raise StoreError("the far store is full")
        await self._held.put(name, blob, keep_s=keep_s)

    async def put_many(self, puts: Sequence[Put]) -> int:
        if self.trouble == "full":
            return len(puts)
        await self._trouble()
        return await self._held.put_many(puts)

    async def delete(self, name: str) -> None:
        await self._trouble()
        await self._held.delete(name)

    async def close(self) -> None:
        await self._trouble()

    async def _trouble(self) -> None:
        """What an operation meets first."""
        if self.trouble == "hangs":
            await asyncio.Event().wait()
        if self.trouble == "hangs and doesn't heed":
            while self.trouble:
                try:
                    await asyncio.wait_for(asyncio.Event().wait(), 0.2)
                except (TimeoutError, asyncio.CancelledError):
                    continue
        if self.trouble == "refuses":
            raise StoreError("connection refused")
        if self.trouble == "has a fault":
            raise ZeroDivisionError


class SlowNearStore:
    """A near store whose reads take as long as they are told, by a clock that a test sets."""

    name = "near"
    limit_bytes = 2**24
    largest_bytes = 2**20
    held_bytes = 0

    def __init__(self) -> None:
        self.now_s = 0.0
        self.takes_s = 0.0
        self.asked = 0

    def clock(self) -> float:
        return self.now_s

    def get_now(self, name: str) -> bytes | None:
        self.asked += 1
        self.now_s += self.takes_s
        return None

    async def get(self, name: str) -> bytes | None:
        return self.get_now(name)

    async def put(self, name: str, blob: bytes, *, keep_s: int) -> None: ...

    async def put_many(self, puts: Sequence[Put]) -> int:
        return 0

    async def delete(self, name: str) -> None: ...

    def scan(self) -> Iterator[str]:
        return iter(())

    async def close(self) -> None: ...
