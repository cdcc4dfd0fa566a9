"""An account with a KV namespace, and a node's ways to it, as tests want them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

from foretold.stores.cloudflare.api import KvApi, Place
from foretold.stores.cloudflare.budget import Budget
from foretold.stores.cloudflare.store import CloudflareKv
from tests.fakes.cloudflare_api import ACCOUNT_ID, TOKEN, CloudflareApi
from tests.fakes.cloudflare_api.things import Namespace, identity

NAMESPACE_ID = identity("PredictionCache")


class Moved(Protocol):
    """A clock that only moves when it is told."""

    now_ms: int


@asynccontextmanager
async def an_account_with_kv(
    *, now_s: Callable[[], float] = time.time, **more: Any
) -> AsyncIterator[tuple[CloudflareApi, KvApi]]:
    async with CloudflareApi() as account:
        account.things.now_s = now_s
        account.things.namespaces.append(Namespace(NAMESPACE_ID, "PredictionCache"))
        account.calls_left = 1_000_000
        api = api_to(account, **more)
        try:
            yield account, api
        finally:
            await api.close()


def api_to(account: CloudflareApi, *, token: str = TOKEN, budget: Budget | None = None, **more: Any) -> KvApi:
    """Whose budget is no matter of the test, if it gives none."""
    place = Place(ACCOUNT_ID, NAMESPACE_ID, token, account.url)
    return KvApi(place, budget or Budget(now_s=_quick()), **more)


def kv_store(api: KvApi, *, clock: Moved) -> CloudflareKv:
    """Whose pauses let the clock move instead of waiting."""

    async def pause(seconds: float) -> None:
        clock.now_ms += round(seconds * 1000)
        await asyncio.sleep(0)

    return CloudflareKv(api, now_s=lambda: clock.now_ms / 1000, pause=pause)


def tier_of(account: CloudflareApi, **more: str) -> str:
    """The settings of a node's tier there; its token is in the environment."""
    given = {"read_purges": "30s", **more}
    told = "".join(f'{name} = "{value}"\n' for name, value in given.items())
    return (
        f'[[tiers]]\nstore = "cloudflare_kv"\nurl = "{account.url}"\naccount_id = "{ACCOUNT_ID}"\n'
        f'namespace_id = "{NAMESPACE_ID}"\ntoken = {{ env = "KV_TOKEN" }}\n{told}'
    )


def _quick() -> Callable[[], float]:
    """A clock on which calls come back as fast as they are made."""
    at_s = 0.0

    def now_s() -> float:
        nonlocal at_s
        at_s += 10.0
        return at_s

    return now_s
