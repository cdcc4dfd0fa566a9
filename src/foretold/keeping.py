"""Records on their way into the tiers: off the response path, bounded, dropped with a count when full."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from foretold.contract.freshness import Verdict, judge, kv_expiration_s
from foretold.contract.record import Record, pack
from foretold.held import lifetimes_of
from foretold.ports import Put
from foretold.tier import Tier
from foretold.tiers import Tiers

QUEUE_BYTES = 64 * 1024 * 1024


class Keeping:
    def __init__(self, tiers: Tiers, *, secret: bytes, largest_bytes: int, now_ms: Callable[[], int]):
        self._tiers = tiers
        self._secret = secret
        self._largest_bytes = largest_bytes
        self._now_ms = now_ms
        self.kept = 0
        self._queues = [_Queue(tier) for tier in tiers.below]

    def keep(self, record: Record) -> str | None:
        """Puts a record into memory at once and queues it for the tiers below; None, or why it isn't kept."""
        body_sha256 = record.body_sha256
        try:
            blob = pack(record, self._secret, body_sha256=body_sha256)
        except ValueError:
            return "header-too-long"
        if not self.takes(len(blob)):
            return "too-long"
        is_kept = self._tiers.keep_in_memory(record, body_sha256)
        lifetimes = lifetimes_of(record)
        keep_s = kv_expiration_s(judge(record.made_ms, lifetimes, self._now_ms()), lifetimes)
        for queue in self._queues:
            is_kept |= queue.add(record.key, blob, keep_s)
        self.kept += is_kept
        return None if is_kept else "queue-full"

    def keep_negative(self, record: Record) -> None:
        """Puts an error into memory alone, until it is no longer fresh; never in the place of an answer (rule P2)."""
        now_ms = self._now_ms()
        there = self._tiers.in_memory(record.key, record.namespace, now_ms)
        if (
            there is not None
            and not there.is_negative
            and judge(there.made_ms, there.lifetimes, now_ms).verdict is not Verdict.DEAD
        ):
            return
        keep_s = judge(record.made_ms, lifetimes_of(record), now_ms).ttl_s
        if keep_s > 0:
            self._tiers.keep_in_memory(record, record.body_sha256, keep_s=keep_s)

    def takes(self, length: int) -> bool:
        """Whether a record of so many bytes may be kept, and some tier takes it."""
        return length <= self._largest_bytes and self._tiers.takes(length)

    async def forget(self, key: str) -> None:
        """Takes a record out of memory, the queues and every tier.  Raises StoreError."""
        for queue in self._queues:
            queue.waiting.pop(key, None)
        await self._tiers.delete(key)

    async def flush(self) -> None:
        """Returns when all that was queued has reached its tier or failed."""
        for queue in self._queues:
            await queue.flush()

    async def close(self) -> None:
        await self.flush()
        for queue in self._queues:
            await queue.close()


class _Queue:
    """What waits for one tier: the newest blob of each key."""

    def __init__(self, tier: Tier):
        self.tier = tier
        self.waiting: dict[str, Put] = {}
        self._bytes = 0
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._worker: asyncio.Task[None] | None = None

    def add(self, key: str, blob: bytes, keep_s: int) -> bool:
        """Whether it waits for a tier that will take it; a store that doesn't take it loses what it had of the key."""
        if self._bytes + len(blob) > QUEUE_BYTES:
            self.tier.counts.dropped += 1
            return False
        self.waiting[key] = Put(key, blob, keep_s)
        self._bytes += len(blob)
        self._idle.clear()
        self._news.set()
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        return self.tier.takes(len(blob))

    async def flush(self) -> None:
        await self._idle.wait()

    async def close(self) -> None:
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)

    async def _work(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self.waiting:
                batch, self.waiting = self.waiting, {}
                self._bytes = 0
                await self.tier.put_many(list(batch.values()))
            self._idle.set()
