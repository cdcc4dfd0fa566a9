"""What each owner holds of a bounded store, so that none can push out all the others.

Only put, delete and eviction come here.  Of an owner over its share the oldest go first, but for those used since they
were last looked at: these get a second chance, so that what is asked for again stays.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol


class Owned(Protocol):
    owner: str
    was_used: bool


class Shares:
    def __init__(self, most_bytes: int):
        self.most_bytes = most_bytes
        self._bytes: dict[str, int] = {}
        self._of: dict[str, OrderedDict[str, Owned]] = {}

    def took(self, name: str, entry: Owned, more_bytes: int) -> None:
        """An entry is new."""
        self._of.setdefault(entry.owner, OrderedDict())[name] = entry
        self.grew(entry.owner, more_bytes)

    def grew(self, owner: str, more_bytes: int) -> None:
        self._bytes[owner] = self._bytes.get(owner, 0) + more_bytes

    def dropped(self, name: str, entry: Owned, freed_bytes: int) -> None:
        entries = self._of[entry.owner]
        del entries[name]
        self._bytes[entry.owner] -= freed_bytes
        if not entries:
            del self._of[entry.owner], self._bytes[entry.owner]

    def held_bytes(self, owner: str) -> int:
        return self._bytes.get(owner, 0)

    def excess_of(self, owner: str, *, more_bytes: int = 0) -> str | None:
        """The name that an owner must give up next to be within its share, with so many bytes more."""
        entries = self._of.get(owner)
        if entries is None or self._bytes[owner] + more_bytes <= self.most_bytes:
            return None
        while True:
            name, entry = next(iter(entries.items()))
            if not entry.was_used:
                return name
            entry.was_used = False
            entries.move_to_end(name)
