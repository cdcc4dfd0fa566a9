"""Descriptions of edges, and accounts to put them in, as tests want them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from foretold.deploy import applying
from foretold.deploy.account import Account
from foretold.deploy.applying import Planned
from foretold.deploy.asking import client
from foretold.deploy.assets import Asset, Assets
from foretold.deploy.changes import Permits
from foretold.deploy.plan import Analytics, Bucket, Edge, Module, RateLimit, Route, Script, Secret, Variable
from foretold.deploy.state import State
from tests.fakes.cloudflare_api import ACCOUNT_ID, TOKEN, ZONE_ID, CloudflareApi

JS = "application/javascript+module"
ENTRY = b'import { answer } from "./answer.js";\nexport default { fetch: () => new Response(answer) };\n'
MODULES = (
    Module(name="prediction_worker.js", content=ENTRY, content_type=JS),
    Module(name="answer.js", content=b'export const answer = "42";\n', content_type=JS),
)
ASSETS = Assets(
    files=(
        Asset(path="/app.js", content=b"ask();\n", content_type="text/javascript; charset=utf-8"),
        Asset(path="/index.html", content=b"<h1>Ask</h1>\n", content_type="text/html; charset=utf-8"),
        Asset(path="/style.css", content=b"h1 {}\n", content_type="text/css; charset=utf-8"),
    )
)
ROUTE = Route(zone_id=ZONE_ID, pattern="example.com/predict*")


def script(**more: Any) -> Script:
    """With one binding of each kind."""
    given: dict[str, Any] = {
        "main_module": "prediction_worker.js",
        "modules": MODULES,
        "compatibility_date": "2026-04-01",
        "compatibility_flags": ("enable_request_signal",),
        "bucket": Bucket(name="prediction-bodies"),
        "ai": "AI",
        "rate_limit": RateLimit(),
        "analytics": Analytics(),
        "variables": (Variable(name="ORIGIN_URL", text="https://node.example"),),
        "log_bucket": Bucket(name="prediction-logs", binding="FORETOLD_LOGS", expire_days=7),
        "assets": ASSETS,
        "secrets": (Secret(name="UPSTREAM_KEY", text="sk-of-the-upstream"),),
    }
    return Script(**{**given, **more})


def edge(*, with_script: Script | None = None, **more: Any) -> Edge:
    given: dict[str, Any] = {"account_id": ACCOUNT_ID, "script": with_script or script(), "route": ROUTE}
    return Edge(**{**given, **more})


@contextmanager
def account(api: CloudflareApi, *, token: str = TOKEN) -> Iterator[Account]:
    """That gives up at the first trouble."""
    with client(token, base_url=api.url, retries=0) as sdk:
        yield Account(sdk, ACCOUNT_ID)


async def calls_of(
    act: Callable[[Account, Edge], object], *, after: Callable[[Account, Edge], object], up_to: str = ""
) -> int:
    """How many it makes, all or up to the first whose path ends so."""
    async with CloudflareApi() as api:
        with account(api) as at:
            await asyncio.to_thread(after, at, edge())
            before = len(api.calls)
            await asyncio.to_thread(act, at, edge())
        if up_to:
            return next(n for n, call in enumerate(api.calls[before:], start=1) if call.path.endswith(up_to))
        return len(api.calls) - before


def plan_once(at: Account, wanted: Edge) -> None:
    applying.plan(at, wanted, Permits())


def nothing(at: Account, wanted: Edge) -> None:
    pass


def apply_once(at: Account, wanted: Edge) -> None:
    planned = applying.plan(at, wanted, Permits())
    applying.apply(at, wanted, Permits(), planned=planned, tell=lambda step: None)


def apply_at(at: Account, wanted: Edge) -> Planned:
    """Plans, applies, and plans again."""
    planned = applying.plan(at, wanted, Permits())
    applying.apply(at, wanted, Permits(), planned=planned, tell=lambda step: None)
    return applying.plan(at, wanted, Permits())


def destroy_at(at: Account, wanted: Edge) -> None:
    planned = applying.plan_removal(at, wanted, keep_data=False)
    applying.destroy(at, wanted, planned=planned, with_answers=False, tell=lambda step: None)


async def plan(api: CloudflareApi, wanted: Edge, permits: Permits | None = None, *, token: str = TOKEN) -> Planned:
    def in_thread() -> Planned:
        with account(api, token=token) as at:
            return applying.plan(at, wanted, permits or Permits())

    return await asyncio.to_thread(in_thread)


async def take(api: CloudflareApi, wanted: Edge, planned: Planned) -> State:
    """What was planned, though the account may have changed since."""

    def in_thread() -> State:
        with account(api) as at:
            return applying.apply(at, wanted, Permits(), planned=planned, tell=lambda step: None)

    return await asyncio.to_thread(in_thread)


async def apply(api: CloudflareApi, wanted: Edge, permits: Permits | None = None) -> State:
    """Plans and applies, as the command does."""
    permits = permits or Permits()

    def in_thread() -> State:
        with account(api) as at:
            planned = applying.plan(at, wanted, permits)
            return applying.apply(at, wanted, permits, planned=planned, tell=lambda step: None)

    return await asyncio.to_thread(in_thread)


async def destroy(api: CloudflareApi, wanted: Edge, *, keep_data: bool = False, with_answers: bool = False) -> None:
    def in_thread() -> None:
        with account(api) as at:
            planned = applying.plan_removal(at, wanted, keep_data=keep_data)
            applying.destroy(at, wanted, planned=planned, with_answers=with_answers, tell=lambda step: None)

    await asyncio.to_thread(in_thread)
