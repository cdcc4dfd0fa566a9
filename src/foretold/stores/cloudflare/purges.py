"""Generations that nodes and edges share by KV, so that a purge on either side reaches the other (rule G1).

The file of this machine stays what is judged by; here it follows KV.  Whichever process finds that KV was not read for
a while reads it for all.  While it can't be read, what was read is believed for `believe_s`, then every record counts
as dead: an edge may have purged it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

from foretold.contract.generations import GENERATION_NAMES, generation_name
from foretold.errors import StoreError
from foretold.generations import LOOK_S, FileGenerations, new_generation
from foretold.ports import Table
from foretold.stores.cloudflare import joining
from foretold.stores.cloudflare.api import KvApi, Value
from foretold.stores.cloudflare.joining import Send

EVERY_S = 20.0
BELIEVE_S = 90.0
FIRST_READ_S = 5.0
# KV may hide for a minute what was just written; what it hides for longer it has lost, or has otherwise than we.
LOST_AFTER_S = 90.0
_AGAIN_S = 1.1
_LOST = Table({})
# What else stands there is nobody's purge.
_GENERATION = re.compile(r"[!-~]{1,64}")

_log = logging.getLogger("foretold")


class SharedGenerations:
    def __init__(
        self,
        file: FileGenerations,
        api: KvApi,
        stamp: Path,
        *,
        every_s: float = EVERY_S,
        believe_s: float = BELIEVE_S,
        wall_s: Callable[[], float] = time.time,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ):
        """`stamp` is a file whose time says when KV was last read, by any process of this data folder."""
        self._file = file
        self._api = api
        self._stamp = stamp
        self._every_s = every_s
        self._believe_s = believe_s
        self._wall_s = wall_s
        self._pause = pause
        self._read_s = self._stamped_s()
        self._look_at_s = 0.0
        self._absent_since: dict[str, float] = {}
        self._disputed_since: dict[str, float] = {}
        self._following: asyncio.Task[None] | None = None
        self._is_unread = False
        self._is_untold = False

    def now(self) -> Table:
        table = self._file.now()
        wall_s = self._wall_s()
        if wall_s >= self._look_at_s or wall_s < self._look_at_s - LOOK_S:
            self._look_at_s = wall_s + LOOK_S
            self._read_s = self._stamped_s()
        return table if self._age_s(wall_s) < self._believe_s else _LOST

    def look(self) -> None:
        self._file.look()

    async def renew(self, tags: Iterable[str]) -> None:
        """Here at once; raises StoreError if KV could not be told, which is tried again until it is."""
        fresh = {tag: new_generation() for tag in tags}
        await self._file.change(lambda table: joining.renewed(table, fresh))
        names = {generation_name(tag) for tag in fresh}
        try:
            await self._send([one for one in joining.to_send(self._file.now(), {}) if one.name in names])
        except StoreError as e:
            raise StoreError(
                f"purged on this machine, but the edges don't know it yet ({e}): they will be told as soon as KV takes it"
            ) from None

    async def open(self) -> None:
        """Reads KV once, if it answers soon, and goes on reading it."""
        self._following = asyncio.create_task(self._follow())
        first = asyncio.create_task(self.read())
        done, _ = await asyncio.wait([first], timeout=FIRST_READ_S)
        if not done:
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            self._failed(StoreError(f"no answer within {FIRST_READ_S:g} s"))

    async def close(self) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        await self._api.close()

    async def read(self) -> bool:
        """Takes over what KV has, and tells it what it lacks; whether it could be read.  Never raises StoreError."""
        began_s = self._wall_s()
        try:
            found = await self._api.texts(await self._api.names(GENERATION_NAMES))
            found = {name: value for name, value in found.items() if _GENERATION.fullmatch(value)}
            await self._file.change(lambda table: joining.merged(table, found, now_s=began_s))
            self._touch(began_s)
        except StoreError as e:
            self._failed(e)
            return False
        if self._is_unread:
            self._is_unread = False
            _log.warning("the purges of the edges are read from KV again")
        await self._tell(found, began_s)
        return True

    async def _follow(self) -> None:
        while True:
            # Not all processes at once: the first reads for all.
            await self._pause(self._every_s * (0.9 + 0.1 * random.random()))  # noqa: S311 - spreads, hides nothing
            if self._age_s(self._wall_s(), stamped_s=self._stamped_s()) >= self._every_s * 0.8:
                await self.read()

    async def _tell(self, found: Mapping[str, str], now_s: float) -> None:
        try:
            await self._settle(found, now_s)
            await self._send(joining.to_send(self._file.now(), found, lost=self._lost(found, now_s)))
        except StoreError as e:
            if not self._is_untold:
                self._is_untold = True
                _log.warning("the edges can't be told what was purged here (%s): it is tried again", e)
            return
        if self._is_untold:
            self._is_untold = False
            _log.warning("the edges know again what was purged here")

    async def _send(self, sending: list[Send]) -> None:
        if not sending:
            return
        left = {one.name: one for one in sending}
        for is_last in (False, True):
            values = [Value(one.name, one.value.encode(), None) for one in left.values()]
            refused = await self._api.put_all(values)
            told = [one for name, one in left.items() if name not in refused]
            now_s = self._wall_s()
            await self._file.change(lambda table, told=told, now_s=now_s: joining.sent(table, told, now_s=now_s))  # type: ignore[misc]
            left = {name: one for name, one in left.items() if name in refused}
            if not left:
                return
            if not is_last:
                await self._pause(_AGAIN_S)  # one write a second of a key
        raise StoreError("KV did not take it: another purge of the same was written within the same second")

    async def _settle(self, found: Mapping[str, str], now_s: float) -> None:
        """Purges once more what both sides hold to be purged by another value, for good: then there is one again."""
        names = joining.disputed(self._file.now(), found)
        self._disputed_since = {name: self._disputed_since.get(name, now_s) for name in names}
        if fresh := {name: new_generation() for name in _longer_than(self._disputed_since, now_s)}:
            await self._file.change(lambda table: joining.settled(table, fresh))

    def _lost(self, found: Mapping[str, str], now_s: float) -> set[str]:
        gone = joining.absent(self._file.now(), found)
        self._absent_since = {name: self._absent_since.get(name, now_s) for name in gone}
        return _longer_than(self._absent_since, now_s)

    def _failed(self, error: StoreError) -> None:
        if not self._is_unread:
            self._is_unread = True
            _log.warning(
                "the purges of the edges can't be read from KV (%s): what was read is believed for %g s, then nothing "
                "kept is given until they can",
                error,
                self._believe_s,
            )

    def _touch(self, at_s: float) -> None:
        try:
            self._stamp.touch(mode=0o600)
            os.utime(self._stamp, (at_s, at_s))
        except OSError as e:
            raise StoreError(f"{self._stamp} can't be written: {e.strerror}") from None
        self._read_s = at_s

    def _stamped_s(self) -> float | None:
        try:
            return self._stamp.stat().st_mtime
        except OSError:
            return None

    def _age_s(self, now_s: float, *, stamped_s: float | None = None) -> float:
        """How long ago KV was read; of a time ahead of ours nothing is known."""
        read_s = self._read_s if stamped_s is None else stamped_s
        if read_s is None or read_s > now_s + 5:
            return float("inf")
        return max(0.0, now_s - read_s)


def _longer_than(since: Mapping[str, float], now_s: float) -> set[str]:
    return {name for name, since_s in since.items() if now_s - since_s >= LOST_AFTER_S}
