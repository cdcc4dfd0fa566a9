"""What waits for one tier: the newest blob of each key, and the keys whose old record must go, bounded.

Here keys are told apart; under which name the tier keeps a record goes along.

Whoever looks a key up asks here before the tier: what waits is newer than what the tier has.  A record that can't be
written must not leave the one that it replaced: then that is deleted, and tried again until it is done.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from itertools import islice

from foretold.errors import StoreError
from foretold.ports import Put
from foretold.tiers.tier import Tier

QUEUE_BYTES = 64 * 1024 * 1024
QUEUE_RECORDS = 65_536
QUEUE_DELETES = 65_536
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
# What one put takes beside its blob.
_PUT_BYTES = 400
_BATCH_BYTES = 8 * 1024 * 1024
_BATCH_RECORDS = 512
_BATCH_DELETES = 64


class Waiting:
    def __init__(self, tier: Tier, *, now_s: Callable[[], float] = time.monotonic):
        self.tier = tier
        # Of what waits and what is being written.
        self.held_bytes = 0
        self._now_s = now_s
        # A key is in at most one of the first two.
        self._waiting: dict[str, Put] = {}
        self._gone: dict[str, str] = {}
        self._written: dict[str, Put] = {}
        self._pause_s = 0.0
        self._again_s = 0.0
        self._news = asyncio.Event()
        self._turned = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._worker: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """The records that wait or are being written."""
        return len(self._waiting) + len(self._written)

    @property
    def deletes(self) -> int:
        """The keys whose old record must still go."""
        return len(self._gone)

    def knows(self, key: str) -> bool:
        """Whether what the tier has of a key doesn't count, because something newer waits."""
        return key in self._waiting or key in self._gone or key in self._written

    def newest(self, key: str) -> bytes | None:
        """The blob that waits under a key; None if none does, or the record is to go."""
        put = self._waiting.get(key)
        if put is None and key not in self._gone:
            put = self._written.get(key)
        return None if put is None else put.blob

    def add(self, key: str, blob: bytes, keep_s: int, *, name: str | None = None) -> bool:
        """Whether it waits for a tier that will take it; if not, what the tier has of the key goes.

        `name` is the tier's for the record; without one it is the key.
        """
        name = name or key
        self._drop(key)
        more = len(blob) + _PUT_BYTES
        if not self.tier.takes_writes or self.held_bytes + more > QUEUE_BYTES or len(self) >= QUEUE_RECORDS:
            self.tier.counts.dropped += 1
            self.outdate(key, name=name)
            return False
        if not self.tier.takes(len(blob)):
            self.outdate(key, name=name)
            return False
        self._gone.pop(key, None)
        self._waiting[key] = Put(name, blob, keep_s)
        self.held_bytes += more
        self._wake()
        return True

    def outdate(self, key: str, *, name: str | None = None) -> None:
        """A newer record of a key won't be written here: what the tier has of it is to go."""
        self._drop(key)
        name = name or key
        if key in self._written or self.tier.may_hold(name):
            self._mark(key, name)
            self._wake()

    def hide(self, key: str, *, name: str | None = None) -> None:
        """From now on nobody finds a key, here or in the tier."""
        self._drop(key)
        self._mark(key, name or key)

    async def forget(self, key: str, *, name: str | None = None) -> None:
        """When this returns, nothing of a key waits, is on its way into the tier, or is there.

        Raises StoreError if the tier could not delete it; that is tried again.
        """
        name = name or key
        self.hide(key, name=name)
        while key in self._written:
            self._turned.clear()
            await self._turned.wait()
        try:
            await self.tier.delete(name)
        except StoreError:
            self._wake()
            raise
        self._gone.pop(key, None)

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
        if self._gone:
            self._pause_s = self._again_s = 0.0
            self._wake()
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

    def _wake(self) -> None:
        self._idle.clear()
        self._news.set()
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())

    def _drop(self, key: str) -> None:
        put = self._waiting.pop(key, None)
        if put is not None:
            self.held_bytes -= len(put.blob) + _PUT_BYTES
            self._turned.set()

    def _mark(self, key: str, name: str) -> None:
        if len(self._gone) >= QUEUE_DELETES and key not in self._gone:
            del self._gone[next(iter(self._gone))]
            self.tier.counts.deletes_dropped += 1
        self._gone[key] = name

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

    @property
    def _may_delete(self) -> bool:
        return bool(self._gone) and self._now_s() >= self._again_s

    async def _work(self) -> None:
        while True:
            await self._wait_for_news()
            while self._waiting or self._may_delete:
                if self._may_delete:
                    await self._delete_some()
                if self._waiting:
                    await self._write_some()
            self._idle.set()

    async def _wait_for_news(self) -> None:
        """Or, while something is to be deleted, for the end of the pause."""
        pause_s = max(0.0, self._again_s - self._now_s()) if self._gone else None
        try:
            async with asyncio.timeout(pause_s):
                await self._news.wait()
        except TimeoutError:
            pass
        self._news.clear()

    async def _write_some(self) -> None:
        batch = self._take()
        keys = list(self._written)
        outdated: Sequence[int] = ()
        try:
            failed = await self.tier.put_many(batch)
            if failed:
                every = range(len(batch))
                outdated = every if failed >= len(batch) else [at for at in every if not await self._has(batch[at])]
        finally:
            self._written = {}
            self.held_bytes -= sum(len(put.blob) + _PUT_BYTES for put in batch)
            for at in outdated:
                if keys[at] not in self._waiting:
                    self._mark(keys[at], batch[at].name)
                    self._wake()
            self._turned.set()

    async def _has(self, put: Put) -> bool:
        return await self.tier.peek(put.name) == put.blob

    async def _delete_some(self) -> None:
        """Alone at first, where the last one failed; then many at once."""
        some = list(islice(self._gone, 1 if self._pause_s else _BATCH_DELETES))
        ended = await asyncio.gather(*(self.tier.delete(self._gone[key]) for key in some), return_exceptions=True)
        failed = 0
        for key, error in zip(some, ended, strict=True):
            if error is None:
                self._gone.pop(key, None)
            elif isinstance(error, StoreError):
                failed += 1
            else:
                raise error
        self.tier.counts.deletes += len(some) - failed
        self.tier.counts.delete_errors += failed
        self._pause_s = min(max(FIRST_PAUSE_S, 2 * self._pause_s), LONGEST_PAUSE_S) if failed else 0.0
        self._again_s = self._now_s() + self._pause_s
