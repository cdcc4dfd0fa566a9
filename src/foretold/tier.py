"""One store at its rank: counted, and never a reason for an answer to fail."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from foretold.errors import StoreError
from foretold.ports import NearStore, Put, Store


@dataclass(slots=True)
class TierCounts:
    """lookups = hits + misses + errors; a corrupt record is counted among the errors."""

    lookups: int = 0
    hits: int = 0
    misses: int = 0
    errors: int = 0
    writes: int = 0
    write_errors: int = 0
    dropped: int = 0


class Tier:
    """A store that failed, or was slower than its deadline, is a miss."""

    def __init__(self, store: Store, *, deadline_s: float):
        """A near store answers at once and is exempt from the deadline."""
        self.store = store
        self.name = store.name
        # Asked once: looking whether a part fits a protocol costs a hundred microseconds.
        self._near = store if isinstance(store, NearStore) else None
        self.counts = TierCounts()
        self._deadline_s = deadline_s

    @property
    def is_near(self) -> bool:
        return self._near is not None

    def takes(self, length: int) -> bool:
        """Whether the store keeps a blob of so many bytes; a far one says so itself, by failing."""
        return self._near is None or length <= self._near.largest_bytes

    async def get(self, name: str) -> bytes | None:
        self.counts.lookups += 1
        try:
            async with asyncio.timeout(self._deadline_s):
                blob = await self.store.get(name)
        except (StoreError, TimeoutError):
            self.counts.errors += 1
            return None
        return self._counted(blob)

    def get_now(self, name: str) -> bytes | None:
        """What a near store has, without waiting."""
        assert self._near is not None
        self.counts.lookups += 1
        try:
            blob = self._near.get_now(name)
        except StoreError:
            self.counts.errors += 1
            return None
        return self._counted(blob)

    def again(self, name: str) -> bytes | None:
        """As `get_now`, of a name that was just looked up: counted only if it is there now."""
        assert self._near is not None
        try:
            blob = self._near.get_now(name)
        except StoreError:
            return None  # counted a moment ago
        if blob is not None:
            self.counts.lookups += 1
            self.counts.hits += 1
        return blob

    async def put_many(self, puts: Sequence[Put]) -> None:
        """Off the response path, so without a deadline."""
        try:
            failed = await self.store.put_many(puts)
        except StoreError:
            failed = len(puts)
        self.counts.write_errors += failed
        self.counts.writes += len(puts) - failed

    async def delete(self, name: str) -> None:
        """Raises StoreError: whoever deletes must know."""
        await self.store.delete(name)

    def found_corrupt(self) -> None:
        """What `get` counted as a hit was no record."""
        self.counts.hits -= 1
        self.counts.errors += 1

    def _counted(self, blob: bytes | None) -> bytes | None:
        if blob is None:
            self.counts.misses += 1
        else:
            self.counts.hits += 1
        return blob
