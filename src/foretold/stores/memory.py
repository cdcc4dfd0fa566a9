"""Bytes in this process's memory, bounded with their overhead, least recently used out first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

from foretold.ports import Put

# Measured by bench/memory.py: a name of 64 characters, a dict slot and an entry.
ENTRY_OVERHEAD_BYTES = 400


class Entry:
    """A blob, and room beside it for what its owner derives from it."""

    __slots__ = ("blob", "derived", "derived_bytes", "gone_at_ms")

    def __init__(self, blob: bytes, gone_at_ms: int):
        self.blob = blob
        self.gone_at_ms = gone_at_ms
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

    def entry(self, name: str, now_ms: int | None = None) -> Entry | None:
        """The entry under a name, now the most recently used."""
        entry = self._entries.get(name)
        if entry is None:
            return None
        if entry.gone_at_ms <= (self._now_ms() if now_ms is None else now_ms):
            self._drop(name)
            return None
        self._entries.move_to_end(name)
        return entry

    def grown(self, name: str, entry: Entry, derived_bytes: int) -> None:
        """Counts bytes that the owner derived from an entry and keeps beside it."""
        if self._entries.get(name) is entry:
            entry.derived_bytes += derived_bytes
            self.held_bytes += derived_bytes
            self._evict()

    def get_now(self, name: str) -> bytes | None:
        entry = self.entry(name)
        return None if entry is None else entry.blob

    async def get(self, name: str) -> bytes | None:
        return self.get_now(name)

    def put_now(self, name: str, blob: bytes, *, keep_s: int) -> Entry | None:
        """The entry, or None if the blob is too large to be taken."""
        self._drop(name)
        if len(blob) > self.largest_bytes:
            return None
        entry = Entry(blob, self._now_ms() + keep_s * 1000)
        self._entries[name] = entry
        self.held_bytes += len(blob) + ENTRY_OVERHEAD_BYTES
        self._evict()
        return entry

    async def put(self, name: str, blob: bytes, *, keep_s: int) -> None:
        self.put_now(name, blob, keep_s=keep_s)

    async def put_many(self, puts: Sequence[Put]) -> int:
        for put in puts:
            self.put_now(put.name, put.blob, keep_s=put.keep_s)
        return 0

    async def delete(self, name: str) -> None:
        self._drop(name)

    def scan(self) -> Iterator[str]:
        return iter(list(self._entries))

    async def close(self) -> None:
        self._entries.clear()
        self.held_bytes = 0

    def _evict(self) -> None:
        while self.held_bytes > self.limit_bytes and self._entries:
            self._drop(next(iter(self._entries)))

    def _drop(self, name: str) -> None:
        entry = self._entries.pop(name, None)
        if entry is not None:
            self.held_bytes -= len(entry.blob) + entry.derived_bytes + ENTRY_OVERHEAD_BYTES
