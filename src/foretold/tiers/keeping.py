"""Records on their way into the tiers: off the response path, bounded, dropped with a count when full."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from foretold.contract.freshness import Verdict, judge, kv_expiration_s
from foretold.contract.record import Record, pack
from foretold.tiers.allowance import Allowance
from foretold.tiers.held import lifetimes_of
from foretold.tiers.order import Tiers

CLOSE_WITHIN_S = 10.0

_log = logging.getLogger("foretold")


class Keeping:
    def __init__(
        self,
        tiers: Tiers,
        *,
        secret: bytes,
        largest_bytes: int,
        now_ms: Callable[[], int],
        close_within_s: float = CLOSE_WITHIN_S,
        writers: int = 1,
    ):
        """`writers` is the number of processes that write to the same near tiers: an owner's share is for all."""
        self._tiers = tiers
        self._secret = secret
        self._largest_bytes = largest_bytes
        self._now_ms = now_ms
        self._close_within_s = close_within_s
        self.kept = 0
        self._queues = tiers.queues
        self._allowances = [
            Allowance(tier.limit_bytes // writers, now_ms=now_ms) if tier.limit_bytes else None for tier in tiers.below
        ]

    def share(self, percent: int) -> None:
        """From now on one owner may hold so many hundredths of memory, and write as many of a near tier below a day."""
        self._tiers.memory.share(percent)
        for allowance in self._allowances:
            if allowance is not None:
                allowance.share(percent)

    def keep(self, record: Record, *, owner: str | None = None) -> str | None:
        """Puts a record into memory at once and queues it for the tiers below; None, or why it isn't kept.

        It counts to the share of its owner, by default of its own namespace.
        """
        owner = owner or record.namespace
        judged = judge(record.made_ms, lifetimes_of(record), self._now_ms())
        if judged.verdict is Verdict.DEAD:
            return "no-lifetime"
        body_sha256 = record.body_sha256
        try:
            blob = pack(record, self._secret, body_sha256=body_sha256)
        except ValueError:
            return "header-too-long"
        if not self.takes(len(blob)):
            return "too-long"
        self._tiers.changed(record.key)
        is_kept = self._tiers.keep_in_memory(record, body_sha256, owner=owner)
        keep_s = kv_expiration_s(judged, lifetimes_of(record))
        is_over_share = False
        for queue, allowance in zip(self._queues, self._allowances, strict=True):
            if allowance is not None and not allowance.take(owner, len(blob)):
                queue.tier.counts.over_share += 1
                is_over_share = True
                queue.outdate(record.key, name=queue.tier.name_of(record.key, record.namespace))
                continue
            name = queue.tier.name_of(record.key, record.namespace)
            is_kept |= queue.add(record.key, blob, keep_s, name=name)
        self.kept += is_kept
        if is_kept:
            return None
        return "over-share" if is_over_share else "queue-full"

    def keep_negative(self, record: Record, *, owner: str) -> None:
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
            self._tiers.keep_in_memory(record, record.body_sha256, owner=owner, keep_s=keep_s)

    def takes(self, length: int) -> bool:
        """Whether a record of so many bytes may be kept, and some tier takes it."""
        return length <= self._largest_bytes and self._tiers.takes(length)

    async def forget(self, key: str) -> tuple[str, ...]:
        """Takes a record out of memory, the queues and every tier, but those told, as `Tiers.delete` says.  Raises
        StoreError.
        """
        return await self._tiers.delete(key)

    def waiting(self, key: str) -> bytes | None:
        """A record that is on its way into a tier below memory."""
        return next((blob for queue in self._queues if (blob := queue.newest(key)) is not None), None)

    async def settled(self, key: str) -> None:
        """Returns when all processes of this machine can find what was queued under a key, or it failed.

        Where there is a near tier they find it there, and nobody waits for one across the network.
        """
        near = [queue for queue in self._queues if queue.tier.is_near]
        await asyncio.gather(*(queue.settled(key) for queue in near or self._queues))

    async def flush(self) -> None:
        """Returns when all that was queued has reached its tier or failed."""
        await asyncio.gather(*(queue.flush() for queue in self._queues))

    async def close(self) -> None:
        """Writes what waits; what a tier doesn't take in time is given up, and the log says how much."""
        lost = await asyncio.gather(*(queue.close(within_s=self._close_within_s) for queue in self._queues))
        for queue, count in zip(self._queues, lost, strict=True):
            if count:
                _log.warning(
                    "the %s tier did not take %d records within %g s: they are not kept there",
                    queue.tier.name,
                    count,
                    self._close_within_s,
                )
            if queue.deletes:
                _log.warning(
                    "the %s tier did not delete %d records that newer ones replaced: they may be served again",
                    queue.tier.name,
                    queue.deletes,
                )
