"""Bytes in this process's memory, bounded with their overhead, least recently used out first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

from foretold.ports import Put
from foretold.stores.shares import Shares

# Measured by bench/memory.py: a name of 64 characters, a dict slot and an entry.
ENTRY_OVERHEAD_BYTES = 400
# The same where owners have shares: a slot of a second dict.
SHARE_OVERHEAD_BYTES = 100


class Entry:
    """A blob, whose it is, and room beside it for what its owner derives from it."""

    __slots__ = ("blob", "derived", "derived_bytes", "gone_at_ms", "owner", "was_used")

    def __init__(self, blob: bytes, gone_at_ms: int, owner: str):
        self.blob = blob
        self.gone_at_ms = gone_at_ms
        self.owner = owner
        self.was_used = False
        self.derived: object = None
        self.derived_bytes = 0


class MemoryStore:
    def __init__(self, limit_bytes: int, *, largest_bytes: int, now_ms: Callable[[], int]):
        """`largest_bytes` is the size up to which a blob is taken; larger ones are silently not kept."""
        self.name = "memory"
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self.largest_bytes = min(largest_bytes, limit_bytes - ENTRY_OVERHEAD_BYTES)
        self._now_ms = now_ms
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._shares: Shares | None = None
        # Of the limit, what one owner may hold.
        # Of the limit: what one owner may hold.
        self.percent = 100

    def share(self, percent: int) -> None:
        """From now on one owner holds at most so many hundredths of the limit; 100 lets any have all of it."""
        if percent == self.percent:
            return
        before_bytes = self._overhead_bytes
        self.percent = percent
        self._shares = Shares(self.limit_bytes * percent // 100) if percent < 100 else None
        self.held_bytes += (self._overhead_bytes - before_bytes) * len(self._entries)
        if self._shares is not None:
            for name, entry in self._entries.items():
                self._shares.took(name, entry, self._bytes_of(entry))
            for owner in {entry.owner for entry in self._entries.values()}:
                self._evict_of(owner)
        self._evict_oldest()

    def entry(self, name: str, now_ms: int | None = None) -> Entry | None:
        """The entry under a name, now the most recently used."""
        entry = self._entries.get(name)
        if entry is None:
            return None
        if entry.gone_at_ms <= (self._now_ms() if now_ms is None else now_ms):
            self._drop(name)
            return None
        self._entries.move_to_end(name)
        entry.was_used = True
        return entry

    def grown(self, name: str, entry: Entry, derived_bytes: int) -> None:
        """Counts bytes that the owner derived from an entry and keeps beside it."""
        if self._entries.get(name) is entry:
            entry.derived_bytes += derived_bytes
            self.held_bytes += derived_bytes
            if self._shares is not None:
                self._shares.grew(entry.owner, derived_bytes)
                self._evict_of(entry.owner)
            self._evict_oldest()

    def get_now(self, name: str) -> bytes | None:
        entry = self.entry(name)
        return None if entry is None else entry.blob

    async def get(self, name: str) -> bytes | None:
        return self.get_now(name)

    def put_now(self, name: str, blob: bytes, *, gone_at_ms: int, owner: str = "") -> Entry | None:
        """The entry, or None if the blob is too large to be taken, or gone already."""
        self._drop(name)
        if len(blob) > self.largest_bytes or gone_at_ms <= self._now_ms():
            return None
        entry = Entry(blob, gone_at_ms, owner)
        taken_bytes = self._bytes_of(entry)
        if self._shares is not None:
            if taken_bytes > self._shares.most_bytes:
                return None
            self._evict_of(owner, more_bytes=taken_bytes)
            self._shares.took(name, entry, taken_bytes)
        self._entries[name] = entry
        self.held_bytes += taken_bytes
        self._evict_oldest()
        return entry

    async def put(self, name: str, blob: bytes, *, keep_s: int) -> None:
        self.put_now(name, blob, gone_at_ms=self._now_ms() + keep_s * 1000)

    async def put_many(self, puts: Sequence[Put]) -> int:
        for put in puts:
            await self.put(put.name, put.blob, keep_s=put.keep_s)
        return 0

    async def delete(self, name: str) -> None:
        self._drop(name)

    def scan(self) -> Iterator[str]:
        return iter(list(self._entries))

    def held_by(self, owner: str) -> int:
        """The bytes that an owner holds; known only where owners have shares."""
        return 0 if self._shares is None else self._shares.held_bytes(owner)

    async def close(self) -> None:
        self.share(100)
        self._entries.clear()
        self.held_bytes = 0

    def _evict_of(self, owner: str, *, more_bytes: int = 0) -> None:
        """Drops an owner's own oldest while it holds more than its share."""
        while self._shares is not None and (name := self._shares.excess_of(owner, more_bytes=more_bytes)) is not None:
            self._drop(name)

    def _evict_oldest(self) -> None:
        while self.held_bytes > self.limit_bytes and self._entries:
            self._drop(next(iter(self._entries)))

    def _drop(self, name: str) -> None:
        entry = self._entries.pop(name, None)
        if entry is not None:
            freed_bytes = self._bytes_of(entry)
            self.held_bytes -= freed_bytes
            if self._shares is not None:
                self._shares.dropped(name, entry, freed_bytes)

    @property
    def _overhead_bytes(self) -> int:
        return ENTRY_OVERHEAD_BYTES if self._shares is None else ENTRY_OVERHEAD_BYTES + SHARE_OVERHEAD_BYTES

    def _bytes_of(self, entry: Entry) -> int:
        return len(entry.blob) + entry.derived_bytes + self._overhead_bytes
