"""One store at its rank: counted, and never a reason for an answer to fail or to wait longer than its deadline.

A far store is asked with a deadline.  A near one (disk) answers within the event loop, until it is slow: then it is
asked in threads, like a far one.  What fails is left out by a breaker, for reads and for writes apart, since a full
disk can still be read.  Only what fails at once is not: asking it costs nobody anything.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from foretold.errors import StoreError
from foretold.ports import NearStore, Put, Store
from foretold.tiers.aside import Aside
from foretold.tiers.breaker import Breaker
from foretold.tiers.pace import Pace

T = TypeVar("T")

WRITE_DEADLINE_S = 10.0
# Beyond those whose failing opens the breaker, who waits at the same time waits only for what the tier usually takes.
_CROWD_SHARE = 0.1
_CROWD_TIMES = 4
# An answer that came while the loop stood still is here, but takes some turns to be told.
_LAST_TURNS = 3

_log = logging.getLogger("foretold")


@dataclass(slots=True)
class TierCounts:
    """lookups = hits + misses + errors + skipped; a corrupt record is counted among the errors.

    `skipped` were not made while the tier was left out; `dropped` are writes that were not tried, `over_share` those
    of tenants who had written their share.  `deletes` took away what a newer record replaced that was not written;
    after `delete_errors` they are tried again, `deletes_dropped` were too many to wait.
    """

    lookups: int = 0
    hits: int = 0
    misses: int = 0
    errors: int = 0
    skipped: int = 0
    writes: int = 0
    write_errors: int = 0
    dropped: int = 0
    over_share: int = 0
    deletes: int = 0
    delete_errors: int = 0
    deletes_dropped: int = 0
    probes: int = 0


class Tier:
    """A store that failed, or was slower than its deadline, is a miss."""

    def __init__(
        self,
        store: Store,
        *,
        deadline_s: float,
        write_deadline_s: float = WRITE_DEADLINE_S,
        now_s: Callable[[], float] = time.monotonic,
        named_by: Callable[[str, str], str] | None = None,
    ):
        """A store that others share too has names by namespace and key, in this order; others by the key alone."""
        self.store = store
        self.name = store.name
        # Asked once: looking whether a part fits a protocol costs a hundred microseconds.
        self._near = store if isinstance(store, NearStore) else None
        self._named_by = named_by
        self.counts = TierCounts()
        self.reads = Breaker(f"reading the {self.name} tier", now_s=now_s)
        self.writes = Breaker(f"writing to the {self.name} tier", now_s=now_s)
        self._pace = Pace(f"the {self.name} tier", deadline_s=deadline_s)
        self._deadline_s = deadline_s
        self._write_deadline_s = write_deadline_s
        self._now_s = now_s
        self._aside = Aside(self.name)
        self._patient = 0
        self._usual_s = 0.0
        self._held_bytes = 0
        # The loop refers to tasks only weakly.
        self._running: set[asyncio.Task[Any]] = set()

    @property
    def is_near(self) -> bool:
        """Whether it answers without waiting, now."""
        return self._near is not None and not self._pace.is_slow

    @property
    def is_shared(self) -> bool:
        """Whether others write to it too."""
        return self._named_by is not None

    def name_of(self, key: str, namespace: str | None) -> str | None:
        """What the store calls a record; None if that takes a namespace and none is known."""
        if self._named_by is None:
            return key
        return None if namespace is None else self._named_by(namespace, key)

    @property
    def reading(self) -> str:
        """How reading stands, in words."""
        return "slow" if self._pace.is_slow and self.reads.lets_through else self.reads.standing.value

    @property
    def writing(self) -> str:
        return self.writes.standing.value

    @property
    def held_bytes(self) -> int:
        """Of a near store, as last known while it can't be asked at once; 0 of a far one."""
        if self._near is not None and self.is_near and self.reads.lets_through:
            self._held_bytes = self._near.held_bytes
        return self._held_bytes

    @property
    def limit_bytes(self) -> int:
        return 0 if self._near is None else self._near.limit_bytes

    def takes(self, length: int) -> bool:
        """Whether the store keeps a blob of so many bytes; a far one says so itself, by failing."""
        return self._near is None or length <= self._near.largest_bytes

    async def get(self, name: str) -> bytes | None:
        """What the store has, before the deadline.

        No more than those whose failing opens the breaker wait for as long as that.
        """
        self.counts.lookups += 1
        if not self._may_read(name):
            return None
        is_patient = self._patient < self.reads.spare
        self._patient += is_patient
        within_s = self._deadline_s if is_patient else self._crowd_s
        began_s = self._now_s()
        try:
            blob = await self._within(self._ask(name), seconds=within_s)
        except (StoreError, TimeoutError) as e:
            self.counts.errors += 1
            if is_patient or not isinstance(e, TimeoutError):
                self.reads.failed(_why(e, within_s))
            return None
        except asyncio.CancelledError:
            self.counts.lookups -= 1  # nobody learns what came of it
            raise
        finally:
            self._patient -= is_patient
        self._usual_s += (self._now_s() - began_s - self._usual_s) / 8
        return self._counted(blob)

    def get_now(self, name: str) -> bytes | None:
        """What a near store has, without waiting."""
        assert self._near is not None
        self.counts.lookups += 1
        if not self._may_read(name):
            return None
        began_s = self._now_s()
        try:
            blob = self._near.get_now(name)
        except StoreError as e:
            self.counts.errors += 1
            self.reads.failed_at_once(str(e))
            return None
        finally:
            self._pace.took(self._now_s() - began_s)
        return self._counted(blob)

    def told(self, blob: bytes | None) -> bytes | None:
        """Counts a look-up that what waits for the store answered."""
        self.counts.lookups += 1
        if blob is None:
            self.counts.misses += 1
        else:
            self.counts.hits += 1
        return blob

    def may_hold(self, name: str) -> bool:
        """False if the store is known to have nothing under a name, which only a near one tells at once."""
        if self._near is None or not self.is_near or not self.reads.lets_through:
            return True
        try:
            return self._near.get_now(name) is not None
        except StoreError:
            return True

    def again(self, name: str) -> bytes | None:
        """As `get_now`, of a name that was just looked up: counted only if it is there now."""
        if self._near is None or not self.is_near or not self.reads.lets_through:
            return None
        try:
            blob = self._near.get_now(name)
        except StoreError:
            return None  # counted a moment ago
        if blob is not None:
            self.counts.lookups += 1
            self.counts.hits += 1
        return blob

    async def peek(self, name: str) -> bytes | None:
        """What the store has, for those who run the node; neither counted nor kept from a tier that is left out."""
        try:
            return await self._within(self._ask(name), seconds=self._write_deadline_s)
        except (StoreError, TimeoutError):
            return None

    @property
    def takes_writes(self) -> bool:
        """Whether it is worth while to queue something."""
        return self.writes.lets_through or self.writes.is_probe_due

    async def put_many(self, puts: Sequence[Put]) -> int:
        """Off the response path, so with a deadline that is generous; how many are not known to be written."""
        is_probe = self.writes.take_probe()
        if not is_probe and not self.writes.lets_through:
            self.counts.dropped += len(puts)
            return len(puts)
        self.counts.probes += is_probe
        why_not = "nothing was written"
        failed = len(puts)
        try:
            failed = await self._within(self.store.put_many(puts), seconds=self._write_deadline_s)
        except (StoreError, TimeoutError) as e:
            why_not = _why(e, self._write_deadline_s)
        finally:
            self.counts.write_errors += failed
            self.counts.writes += len(puts) - failed
            is_good = failed < len(puts) or not puts
            if is_probe:
                self.writes.probed(None if is_good else why_not)
            elif is_good:
                self.writes.succeeded()
            else:
                self.writes.failed(why_not)
        return failed

    async def delete(self, name: str) -> None:
        """Raises StoreError: whoever deletes must know."""
        try:
            await self._within(self.store.delete(name), seconds=self._write_deadline_s)
        except TimeoutError:
            raise StoreError(
                f"the {self.name} tier did not delete within {self._write_deadline_s:g} s: purge again when it works"
            ) from None

    def found_pointer(self) -> None:
        """What was counted as a hit only says that the record lies where we don't look."""
        self.counts.hits -= 1
        self.counts.misses += 1

    def found_corrupt(self) -> None:
        """What was counted as a hit was no record."""
        self.counts.hits -= 1
        self.counts.errors += 1
        (self.reads.failed_at_once if self.is_near else self.reads.failed)("what it holds is no whole record")

    async def close(self) -> None:
        """A store that does not close in time is left."""
        for task in self._running:
            task.cancel()
        self._aside.close()
        try:
            await self._within(self.store.close(), seconds=self._write_deadline_s)
        except (StoreError, TimeoutError) as e:
            _log.warning("the %s tier was left without being closed: %s", self.name, _why(e, self._write_deadline_s))

    @property
    def _crowd_s(self) -> float:
        return min(self._deadline_s, max(self._deadline_s * _CROWD_SHARE, _CROWD_TIMES * self._usual_s))

    def _may_read(self, name: str) -> bool:
        """Whether it may be asked now; if it is left out, it is skipped, and now and then tried behind the answer."""
        if self.reads.lets_through:
            return True
        self.counts.skipped += 1
        if self.reads.take_probe():
            self.counts.probes += 1
            self._keep(asyncio.ensure_future(self._probe(name)))
        return False

    async def _probe(self, name: str) -> None:
        why_not: str | None = "the probe was given up"
        try:
            await self._within(self._ask(name), seconds=self._deadline_s)
            why_not = None
        except (StoreError, TimeoutError) as e:
            why_not = _why(e, self._deadline_s)
        finally:
            self.reads.probed(why_not)

    async def _ask(self, name: str) -> bytes | None:
        if self._near is None:
            return await self.store.get(name)
        near = self._near

        def timed() -> tuple[bytes | None, float]:
            began_s = self._now_s()
            return near.get_now(name), self._now_s() - began_s

        blob, took_s = await self._aside.run(timed)
        self._pace.took(took_s)
        return blob

    async def _within(self, asked: Coroutine[Any, Any, T], *, seconds: float) -> T:
        """What was asked for; raises TimeoutError then, even if the store doesn't heed being cancelled."""
        task = asyncio.ensure_future(asked)
        self._keep(task)
        try:
            await asyncio.wait([task], timeout=seconds)
            for _ in range(_LAST_TURNS):
                if task.done():
                    break
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not task.done():
            task.cancel()
            raise TimeoutError
        error = None if task.cancelled() else task.exception()
        if task.cancelled():
            raise StoreError(f"the {self.name} store gave a look-up up")
        if error is not None and not isinstance(error, StoreError | TimeoutError):
            # A fault in a store is one of ours, but takes an answer from nobody: told in the log, whole.
            _log.error("a fault in the %s store", self.name, exc_info=error)
            raise StoreError(f"a fault in the {self.name} store: {type(error).__name__}") from error
        return task.result()

    def _keep(self, task: asyncio.Task[Any]) -> None:
        self._running.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # of one that nobody waits for any more

    def _counted(self, blob: bytes | None) -> bytes | None:
        self.reads.succeeded()
        if blob is None:
            self.counts.misses += 1
        else:
            self.counts.hits += 1
        return blob


def _why(error: Exception, within_s: float) -> str:
    return f"no answer within {within_s * 1000:g} ms" if isinstance(error, TimeoutError) else str(error)
