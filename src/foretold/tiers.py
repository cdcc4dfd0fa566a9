"""The stores in their order: look-ups go down, what is found comes up.

Memory is the first tier and special in one thing: beside each record it keeps what was derived from it.  Times travel
inside the record, so coming up never makes an answer younger.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from foretold.contract.freshness import Lifetimes, judge, kv_expiration_s
from foretold.contract.record import Record, open_sealed, unpack
from foretold.errors import RecordCorrupt, StoreError
from foretold.stores.memory import Entry, MemoryStore
from foretold.tier import Tier, TierCounts

_DERIVED_BYTES = 900


class Held:
    """A record in memory, opened once.

    `record` has no body: it is `blob[body_at:]`.  `ready` are answers made of it, by what was asked (ready.py).
    `alive_under` is the table of generations under which the record was last found alive.
    """

    __slots__ = ("alive_under", "blob", "body_at", "body_sha256", "lifetimes", "ready", "record")

    def __init__(self, record: Record, blob: bytes):
        self.blob = blob
        self.body_at = len(blob) - len(record.body)
        self.record = replace(record, body=b"")
        self.body_sha256 = record.body_sha256
        self.lifetimes = lifetimes_of(record)
        self.ready: dict[tuple[bool, bool, bool, str | None], object] = {}
        self.alive_under: Mapping[str, str] | None = None

    @property
    def body(self) -> bytes:
        return self.blob[self.body_at :]


@dataclass(frozen=True, slots=True)
class Found:
    held: Held
    tier: str


class Tiers:
    def __init__(self, memory: MemoryStore, below: Sequence[Tier], *, secret: bytes, now_ms: Callable[[], int]):
        self.memory = memory
        self.below = tuple(below)
        self.memory_counts = TierCounts()
        self.corrupt = 0
        self._secret = secret
        self._now_ms = now_ms

    def in_memory(self, key: str, namespace: str) -> Held | None:
        """The record held in memory; not counted, so that a look that leads to a second one counts once."""
        entry = self.memory.entry(key)
        if entry is None:
            return None
        held = entry.derived
        if not isinstance(held, Held):
            held = self._open(entry.blob, key, namespace)
            if held is None:
                return None
            self._derive(key, entry, held)
        return held if held.record.namespace == namespace else None

    async def look_up(self, key: str, namespace: str) -> Found | None:
        """The record under a key in the nearest tier that has it whole; what isn't a record is deleted there."""
        self.memory_counts.lookups += 1
        held = self.in_memory(key, namespace)
        if held is not None:
            self.memory_counts.hits += 1
            return Found(held, self.memory.name)
        self.memory_counts.misses += 1
        for tier in self.below:
            blob = await tier.get(key)
            if blob is None:
                continue
            held = self._open(blob, key, namespace)
            if held is None:
                tier.found_corrupt()
                with contextlib.suppress(StoreError):  # counted as corrupt already; the next look-up tries again
                    await tier.delete(key)
                continue
            self._into_memory(key, held)
            return Found(held, tier.name)
        # Look again: a flight that was missed before may have landed while a tier was asked.
        held = self.in_memory(key, namespace)
        return Found(held, self.memory.name) if held is not None else None

    async def by_key(self, key: str) -> Found | None:
        """The record under a key, whosever it is: for those who run the node.  Not counted."""
        entry = self.memory.entry(key)
        blobs: list[tuple[str, bytes | None]] = [(self.memory.name, entry.blob)] if entry is not None else []
        for tier in self.below:
            with contextlib.suppress(StoreError):
                blobs.append((tier.name, await tier.store.get(key)))
        for name, blob in blobs:
            with contextlib.suppress(RecordCorrupt):
                if blob is not None and (record := open_sealed(blob, self._secret)).key == key:
                    return Found(Held(record, blob), name)
        return None

    def keep_in_memory(self, record: Record, blob: bytes) -> None:
        self._into_memory(record.key, Held(record, blob))

    async def delete(self, key: str) -> None:
        """Takes a record out of every tier.  Raises StoreError if one of them couldn't."""
        await self.memory.delete(key)
        for tier in self.below:
            await tier.delete(key)

    def grown(self, key: str, held: Held, more_bytes: int) -> None:
        """Counts a ready body that was put beside a record in memory."""
        entry = self.memory.entry(key)
        if entry is not None and entry.derived is held:
            self.memory.grown(key, entry, more_bytes)

    async def close(self) -> None:
        await self.memory.close()
        for tier in self.below:
            await tier.store.close()

    def _into_memory(self, key: str, held: Held) -> None:
        judged = judge(held.record.made_ms, held.lifetimes, self._now_ms())
        entry = self.memory.put_now(key, held.blob, keep_s=kv_expiration_s(judged, held.lifetimes))
        if entry is not None:
            self._derive(key, entry, held)

    def _derive(self, key: str, entry: Entry, held: Held) -> None:
        entry.derived = held
        self.memory.grown(key, entry, _DERIVED_BYTES)

    def _open(self, blob: bytes, key: str, namespace: str) -> Held | None:
        try:
            return Held(unpack(blob, self._secret, key=key, namespace=namespace), blob)
        except RecordCorrupt:
            self.corrupt += 1
            return None


def lifetimes_of(record: Record) -> Lifetimes:
    return Lifetimes(record.fresh_s, record.stale_while_revalidate_s, record.stale_if_error_s)
