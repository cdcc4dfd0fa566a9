"""The store `cloudflare_kv`: records under the names that edges use, so that both show each other's hits.

KV takes one write a second of a key, and the account few calls: so writes and deletes take turns, a little more than a
second apart, each with all that has come meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from foretold.errors import StoreError
from foretold.ports import Put
from foretold.stores.cloudflare.api import LARGEST_BYTES, KvApi, Value

T = TypeVar("T")
R = TypeVar("R")

BETWEEN_WRITES_S = 1.1


class CloudflareKv:
    name = "cloudflare_kv"

    def __init__(
        self,
        api: KvApi,
        *,
        now_s: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ):
        self._api = api
        self._now_s = now_s
        self._pause = pause
        self._turn = asyncio.Lock()
        self._next_s = 0.0
        self._going: dict[str, list[asyncio.Future[None]]] = {}
        self._deleting: asyncio.Task[None] | None = None

    async def get(self, name: str) -> bytes | None:
        return await self._api.get(name)

    async def put(self, name: str, blob: bytes, *, keep_s: int) -> None:
        """What is longer than KV takes is not kept, nor what was there under that name."""
        if await self.put_many([Put(name, blob, keep_s)]) and len(blob) <= LARGEST_BYTES:
            raise StoreError("KV did not take a value: it was written within the same second elsewhere")

    async def put_many(self, puts: Sequence[Put]) -> int:
        newest = {put.name: put for put in puts}
        too_large = [name for name, put in newest.items() if len(put.blob) > LARGEST_BYTES]
        values = [Value(p.name, p.blob, p.keep_s) for p in newest.values() if len(p.blob) <= LARGEST_BYTES]
        refused: set[str] = set(too_large)
        if too_large:
            await self._in_turn(self._api.delete_all, too_large)
        if values:
            refused |= await self._in_turn(self._api.put_all, values)
        return sum(put.name in refused for put in puts)

    async def delete(self, name: str) -> None:
        """With all others that are deleted before its turn comes, in one call."""
        done = asyncio.get_running_loop().create_future()
        self._going.setdefault(name, []).append(done)
        if self._deleting is None:
            self._deleting = asyncio.create_task(self._delete_all())
        await done

    async def close(self) -> None:
        if self._deleting is not None:
            self._deleting.cancel()
            await asyncio.gather(self._deleting, return_exceptions=True)
        await self._api.close()

    async def _delete_all(self) -> None:
        try:
            while self._going:
                await self._in_turn(self._delete_those_waiting, None)
        finally:
            self._deleting = None
            self._tell(self._going, StoreError("the store was closed before KV was told to delete"))
            self._going = {}

    async def _delete_those_waiting(self, _: None) -> None:
        going, self._going = self._going, {}
        why_not: StoreError | None = StoreError("the store was closed while KV was told to delete")
        refused: set[str] = set()
        try:
            refused = await self._api.delete_all(list(going))
            why_not = None
        except StoreError as e:
            why_not = e
        finally:
            self._tell({n: f for n, f in going.items() if n not in refused}, why_not)
            self._tell({n: f for n, f in going.items() if n in refused}, StoreError("KV did not delete a value"))

    def _tell(self, going: dict[str, list[asyncio.Future[None]]], why_not: StoreError | None) -> None:
        for done in (done for futures in going.values() for done in futures if not done.done()):
            if why_not is None:
                done.set_result(None)
            else:
                done.set_exception(why_not)

    async def _in_turn(self, act: Callable[[T], Awaitable[R]], what: T) -> R:
        async with self._turn:
            wait_s = self._next_s - self._now_s()
            if wait_s > 0:
                await self._pause(wait_s)
            try:
                return await act(what)
            finally:
                self._next_s = self._now_s() + BETWEEN_WRITES_S
