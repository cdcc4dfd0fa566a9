"""Interrupted at any call a deployment goes on, and so does its removal, which leaves what others use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from foretold.errors import DeployError, DeployTaken, DeployUnreachable
from tests.edges import (
    account,
    apply,
    apply_at,
    apply_once,
    calls_of,
    destroy,
    destroy_at,
    edge,
    nothing,
)
from tests.fakes.cloudflare_api import CloudflareApi


@pytest.fixture
async def api() -> AsyncIterator[CloudflareApi]:
    async with CloudflareApi() as running:
        yield running


@pytest.mark.parametrize("trouble", ["cut before", "cut after", "fault"])
async def test_interrupted_at_any_call_the_next_apply_goes_on(api, trouble):
    with account(api) as at:
        for number in range(1, await calls_of(apply_once, after=nothing) + 1):
            api.begin_anew()
            _order(api, trouble, number)
            with pytest.raises(DeployError, match="run it again"):
                await asyncio.to_thread(apply_once, at, edge())

            planned = await asyncio.to_thread(apply_at, at, edge())

            assert planned.changes.steps == (), f"{trouble} {number}"
            assert len(api.things.namespaces) == 1
            assert len(api.things.routes) == 1


def _order(api: CloudflareApi, trouble: str, number: int) -> None:
    match trouble:
        case "cut before":
            api.cut_before(number)
        case "cut after":
            api.cut_after(number)
        case "fault":
            api.fail(number, status=500, code=10013)


async def test_destroying_leaves_nothing_of_ours_and_all_of_others(api):
    theirs = api.things.add_script("their-worker")
    api.things.add_route("example.com/theirs*", "their-worker")
    await apply(api, edge())

    await destroy(api, edge())

    assert api.things.scripts == {"their-worker": theirs}
    assert [r["script"] for r in api.things.routes.values()] == ["their-worker"]
    assert api.things.namespaces == []
    assert api.things.buckets == {}


async def test_destroying_cut_at_any_call_goes_on(api):
    with account(api) as at:
        for number in range(1, await calls_of(destroy_at, after=apply_at) + 1):
            api.begin_anew()
            await asyncio.to_thread(apply_once, at, edge())
            api.cut_after(number)
            with pytest.raises(DeployUnreachable):
                await asyncio.to_thread(destroy_at, at, edge())

            await asyncio.to_thread(destroy_at, at, edge())

            left = api.things
            assert (left.scripts, left.routes, left.namespaces, left.buckets) == ({}, {}, [], {}), str(number)


async def test_a_namespace_and_a_bucket_that_another_worker_uses_stay(api):
    await apply(api, edge())
    kv = {"type": "kv_namespace", "name": "C", "namespace_id": api.things.namespace("PredictionCache").id}
    api.things.add_script(
        "their-worker", bindings=[kv, {"type": "r2_bucket", "name": "B", "bucket_name": "prediction-bodies"}]
    )

    await destroy(api, edge())

    assert list(api.things.scripts) == ["their-worker"]
    assert [n.title for n in api.things.namespaces] == ["PredictionCache"]
    assert list(api.things.buckets) == ["prediction-bodies"]


async def test_a_worker_of_somebody_else_is_not_destroyed(api):
    api.things.add_script("prediction-worker")

    with pytest.raises(DeployTaken, match="by hand"):
        await destroy(api, edge())

    assert api.writes == []


async def test_a_bucket_with_answers_is_kept_unless_they_may_go(api):
    await apply(api, edge())
    api.things.buckets["prediction-bodies"].objects.update({f"p1/{n}": b"x" for n in range(3)})

    with pytest.raises(DeployError, match="--with-answers"):
        await destroy(api, edge())
    await destroy(api, edge(), with_answers=True)

    assert api.things.buckets == {}
