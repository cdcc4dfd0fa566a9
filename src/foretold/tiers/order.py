"""The stores in their order: look-ups go down, what is found comes up.

Memory is the first tier and special in one thing: beside each record it keeps what was derived from it.  Near tiers
(disk) answer at once; far ones, and near ones while they are slow, are waited for.  Times travel inside the record, so
coming up never makes an answer younger, nor lets it outlive its death.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import asdict

from foretold.contract.record import Record, open_sealed, unpack_with_digest
from foretold.errors import RecordCorrupt, StoreError
from foretold.halves import Halves
from foretold.stores.memory import MemoryStore
from foretold.tiers.held import Held, Shared
from foretold.tiers.tier import Tier, TierCounts
from foretold.tiers.waiting import Waiting

# Measured by bench/memory.py: what a Held and its parts take beside the blob.
HELD_BYTES = 450
# Of bodies that memory doesn't take: a body that many callers read slowly lies in memory once.
LATELY_BYTES = 32 * 1024 * 1024


class Found(NamedTuple):
    held: Held
    tier: str
    is_in_memory: bool


class _Asking:
    """Those who ask far tiers for a key, now, and whether its record changed since the first of them began."""

    __slots__ = ("count", "is_changed")

    def __init__(self) -> None:
        self.count = 0
        self.is_changed = False


class Tiers:
    def __init__(self, memory: MemoryStore, below: Sequence[Tier], *, secret: bytes, now_ms: Callable[[], int]):
        self.memory = memory
        self.below = tuple(below)
        self.queues = tuple(Waiting(tier) for tier in self.below)
        self.memory_counts = TierCounts()
        self.corrupt = 0
        self._secret = secret
        self._now_ms = now_ms
        self._shared = Shared()
        self._cleaning: set[asyncio.Task[None]] = set()
        self._asking: dict[str, _Asking] = {}
        self._lately: Halves[bytes] = Halves(LATELY_BYTES)

    @property
    def has_far(self) -> bool:
        """Whether some tier must be waited for, now."""
        return any(not tier.is_near for tier in self.below)

    def in_memory(self, key: str, namespace: str, now_ms: int | None = None) -> Held | None:
        """The record held in memory; not counted, so that a look that leads to a second one counts once."""
        entry = self.memory.entry(key, now_ms)
        if entry is None:
            return None
        held = entry.derived
        return held if isinstance(held, Held) and held.namespace == namespace else None

    def look_near(self, key: str, namespace: str, *, owner: str | None = None) -> Found | None:
        """The record in memory or in a near tier, without waiting for anything.

        What comes up counts to the owner's share of memory, by default to that of its own namespace.
        """
        self.memory_counts.lookups += 1
        held = self.in_memory(key, namespace)
        if held is not None:
            self.memory_counts.hits += 1
            return Found(held, self.memory.name, True)
        self.memory_counts.misses += 1
        for queue in self.queues:
            tier = queue.tier
            if not tier.is_near:
                continue
            blob = tier.told(queue.newest(key)) if queue.knows(key) else tier.get_now(key)
            held = self._opened(tier, blob, key, namespace)
            if held is not None:
                self._come_up(held, owner or namespace)
                return Found(held, tier.name, False)
        return None

    def look_again(self, key: str, namespace: str, *, owner: str) -> Found | None:
        """What another process may have put into a near tier since the last look; counted only if it is there."""
        for queue in self.queues:
            tier = queue.tier
            held = self._opened(tier, None if queue.knows(key) else tier.again(key), key, namespace)
            if held is not None:
                self._come_up(held, owner)
                return Found(held, tier.name, False)
        return None

    async def look_far(self, key: str, namespace: str, *, owner: str | None = None) -> Found | None:
        """The record in the nearest of the tiers that must be waited for that has it whole."""
        for queue in self.queues:
            tier = queue.tier
            if tier.is_near:
                continue
            name = tier.name_of(key, namespace) or key
            blob = tier.told(queue.newest(key)) if queue.knows(key) else await self._asked(queue, key, name)
            # Look again: a flight that was missed before may have landed while the tier was asked.
            held = self.in_memory(key, namespace)
            if held is not None:
                return Found(held, self.memory.name, True)
            held = self._opened(tier, blob, key, namespace)
            if held is not None:
                self._come_up(held, owner or namespace)
                return Found(held, tier.name, False)
        return None

    def changed(self, key: str) -> None:
        """A record was kept or deleted: what a tier tells that was asked before is not the newest."""
        asking = self._asking.get(key)
        if asking is not None:
            asking.is_changed = True

    async def by_key(self, key: str) -> tuple[str, dict[str, object], int] | None:
        """For those who run the node: the first tier with a record under a key, its members and its body's length.

        Whosever it is; not counted.  Memory alone doesn't know all members.
        """
        entry = self.memory.entry(key)
        held = entry.derived if entry is not None and isinstance(entry.derived, Held) else None
        # A negative record is in memory alone; what lies below it is another.
        for queue in () if held is not None and held.is_negative else self.queues:
            tier = queue.tier
            name = tier.name_of(key, held.namespace if held is not None else None)
            blob = queue.newest(key)
            if name is not None and not queue.knows(key):
                blob = await tier.peek(name)
            with contextlib.suppress(RecordCorrupt):
                if blob is not None and (record := open_sealed(blob, self._secret)).key == key:
                    told = {name: value for name, value in asdict(record).items() if name not in ("body", "rest")}
                    return self.memory.name if held is not None else tier.name, told, len(record.body)
        return None if held is None else (self.memory.name, held.told(), len(held.body))

    def keep_in_memory(self, record: Record, body_sha256: str, *, owner: str, keep_s: int | None = None) -> bool:
        """Whether memory took it; for as long as its lifetimes say, or `keep_s`."""
        return self._into_memory(Held(record, body_sha256, self._shared), owner, keep_s=keep_s)

    def bring_up(self, blob: bytes, key: str, namespace: str, *, owner: str) -> bool:
        """Puts a record that another process keeps into memory; False if it is none, or memory didn't take it."""
        with contextlib.suppress(RecordCorrupt):
            record, body_sha256 = unpack_with_digest(blob, self._secret, key=key, namespace=namespace)
            return self._into_memory(Held(record, body_sha256, self._shared), owner)
        return False

    def takes(self, length: int) -> bool:
        """Whether some tier takes a record of so many bytes."""
        return length <= self.memory.largest_bytes or any(tier.takes(length) for tier in self.below)

    async def delete(self, key: str) -> tuple[str, ...]:
        """Takes a record out of memory, what waits and every tier; from now on nobody finds it.

        The tiers that were left as they are, because nothing here says whose record it is, which is part of its name
        there.  Raises StoreError if a tier couldn't, once the others have; it is tried again there.
        """
        namespace = await self._namespace_of(key)
        self.changed(key)
        named = [(queue, queue.tier.name_of(key, namespace)) for queue in self.queues]
        for queue, name in named:
            if name is not None:
                queue.hide(key, name=name)
        await self.memory.delete(key)
        forgetting = [queue.forget(key, name=name) for queue, name in named if name is not None]
        ended = await asyncio.gather(*forgetting, return_exceptions=True)
        # Again: while a tier was waited for, another process's record may have been brought up.
        await self.memory.delete(key)
        for error in ended:
            if error is not None:
                raise error
        return tuple(queue.tier.name for queue, name in named if name is None)

    async def _namespace_of(self, key: str) -> str | None:
        """Whose record lies under a key here, asked only where a tier's names need it."""
        if not any(tier.is_shared for tier in self.below):
            return None
        entry = self.memory.entry(key)
        if entry is not None and isinstance(entry.derived, Held):
            return entry.derived.namespace
        for queue in self.queues:
            blob = queue.newest(key)
            if blob is None and not queue.tier.is_shared:
                blob = await queue.tier.peek(key)
            with contextlib.suppress(RecordCorrupt):
                if blob is not None:
                    return open_sealed(blob, self._secret).namespace
        return None

    def grown(self, held: Held, more_bytes: int) -> None:
        """Counts what was made of a record and is kept beside it in memory."""
        entry = self.memory.entry(held.key)
        if entry is not None and entry.derived is held:
            self.memory.grown(held.key, entry, more_bytes)

    async def close(self) -> None:
        await asyncio.gather(*self._cleaning)
        await self.memory.close()
        await asyncio.gather(*(tier.close() for tier in self.below))

    async def _asked(self, queue: Waiting, key: str, name: str) -> bytes | None:
        """What a far tier has, or what came to wait for it meanwhile."""
        asking = self._asking.setdefault(key, _Asking())
        asking.count += 1
        try:
            blob = await queue.tier.get(name)
        finally:
            asking.count -= 1
            if not asking.count:
                del self._asking[key]
        return queue.newest(key) if asking.is_changed else blob

    def _opened(self, tier: Tier, blob: bytes | None, key: str, namespace: str) -> Held | None:
        """What a tier gave, opened; what is no record is deleted there, out of the way, where all is ours.

        In a tier that edges share, a pointer says that a record lies in their bucket: for us that is a miss.
        """
        if blob is None:
            return None
        record = self._unpacked(blob, key, namespace)
        if record is not None and record[0].kind == "pointer":
            tier.found_pointer()
            return None
        if record is not None:
            return Held(*record, self._shared)
        tier.found_corrupt()
        if tier.is_shared:
            return None
        cleaning = asyncio.ensure_future(_clean(tier, key))
        self._cleaning.add(cleaning)
        cleaning.add_done_callback(self._cleaning.discard)
        return None

    def _come_up(self, held: Held, owner: str) -> None:
        """Into memory; of what it doesn't take, all who are given the same body lately get the same bytes object."""
        if self._into_memory(held, owner):
            return
        place = held.key, held.digest
        lately = self._lately.get(place)
        if lately == held.body:
            held.body = lately
        else:
            self._lately.put(place, held.body, cost=len(held.body))

    def _into_memory(self, held: Held, owner: str, *, keep_s: int | None = None) -> bool:
        now_ms = self._now_ms()
        gone_at_ms = _dead_at_ms(held, now_ms) if keep_s is None else now_ms + keep_s * 1000
        entry = self.memory.put_now(held.key, held.body, gone_at_ms=gone_at_ms, owner=owner)
        if entry is not None:
            entry.derived = held
            self.memory.grown(held.key, entry, HELD_BYTES)
        return entry is not None

    def _unpacked(self, blob: bytes, key: str, namespace: str) -> tuple[Record, str] | None:
        try:
            return unpack_with_digest(blob, self._secret, key=key, namespace=namespace)
        except RecordCorrupt:
            self.corrupt += 1
            return None


def _dead_at_ms(held: Held, now_ms: int) -> int:
    """When a record dies (rule F1); of one from a clock ahead of ours, no later than if it were made now."""
    lifetimes = held.lifetimes
    usable_s = lifetimes.fresh_s + max(lifetimes.stale_while_revalidate_s, lifetimes.stale_if_error_s)
    return min(held.made_ms, now_ms) + usable_s * 1000


async def _clean(tier: Tier, key: str) -> None:
    with contextlib.suppress(StoreError):  # counted as corrupt already; the next look-up tries again
        await tier.delete(key)
