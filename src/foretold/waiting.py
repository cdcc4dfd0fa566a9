"""What waits to be written to one tier: the newest blob of each key, bounded in number and bytes."""

from __future__ import annotations

import asyncio

from foretold.ports import Put
from foretold.tier import Tier

QUEUE_BYTES = 64 * 1024 * 1024
QUEUE_RECORDS = 65_536
# What one put takes beside its blob.
_PUT_BYTES = 400
_BATCH_BYTES = 8 * 1024 * 1024
_BATCH_RECORDS = 512


class Waiting:
    def __init__(self, tier: Tier):
        self.tier = tier
        # Of what waits and what is being written.
        self.held_bytes = 0
        self._waiting: dict[str, Put] = {}
        self._written: dict[str, Put] = {}
        self._news = asyncio.Event()
        self._turned = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._worker: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._waiting) + len(self._written)

    def add(self, key: str, blob: bytes, keep_s: int) -> bool:
        """Whether it waits for a tier that will take it; a store that doesn't take it loses what it had of the key."""
        self._drop(key)
        more = len(blob) + _PUT_BYTES
        if not self.tier.takes_writes or self.held_bytes + more > QUEUE_BYTES or len(self) >= QUEUE_RECORDS:
            self.tier.counts.dropped += 1
            return False
        self._waiting[key] = Put(key, blob, keep_s)
        self.held_bytes += more
        self._idle.clear()
        self._news.set()
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        return self.tier.takes(len(blob))

    async def forget(self, key: str) -> None:
        """When this returns, nothing of a key waits, and none of it is on its way into the tier."""
        self._drop(key)
        while key in self._written:
            self._turned.clear()
            await self._turned.wait()

    def blob(self, key: str) -> bytes | None:
        """What of a key waits, or is being written."""
        put = self._waiting.get(key) or self._written.get(key)
        return None if put is None else put.blob

    async def settled(self, key: str) -> None:
        """Returns when nothing of a key waits or is being written."""
        while key in self._waiting or key in self._written:
            self._turned.clear()
            await self._turned.wait()

    async def flush(self) -> None:
        """Returns when all that waited has reached the tier, or failed."""
        await self._idle.wait()

    async def close(self, *, within_s: float) -> int:
        """Writes what waits, if the tier takes it in time; how many records were given up."""
        try:
            async with asyncio.timeout(within_s):
                await self.flush()
        except TimeoutError:
            pass
        lost = len(self)
        # Those on their way count as failed once the worker is stopped; nobody tried the others.
        self.tier.counts.dropped += len(self._waiting)
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)
        return lost

    def _drop(self, key: str) -> None:
        put = self._waiting.pop(key, None)
        if put is not None:
            self.held_bytes -= len(put.blob) + _PUT_BYTES

    def _take(self) -> list[Put]:
        """The next ones, those that have waited longest."""
        size = 0
        for key, put in self._waiting.items():
            if self._written and (len(self._written) >= _BATCH_RECORDS or size + len(put.blob) > _BATCH_BYTES):
                break
            self._written[key] = put
            size += len(put.blob)
        for key in self._written:
            del self._waiting[key]
        return list(self._written.values())

    async def _work(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                batch = self._take()
                try:
                    await self.tier.put_many(batch)
                finally:
                    self._written = {}
                    self.held_bytes -= sum(len(put.blob) + _PUT_BYTES for put in batch)
                    self._turned.set()
            self._idle.set()
