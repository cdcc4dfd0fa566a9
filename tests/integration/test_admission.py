"""What a route keeps: what is asked for first, or only what is asked for twice."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.clock import Clock
from tests.fakes.upstream import chat, text_for, whole
from tests.integration.test_tenants import KEYS, bearer
from tests.running import in_front_of, running

NO_STALE = '[cache]\nstale_while_revalidate = "0s"\n'
ROUTE = '[[routes]]\nname = "r"\nmodels = ["*"]\nupstream = "fake"\nadmit = "{}"\n'


async def test_the_second_answer_is_kept_and_the_third_is_a_hit(upstream, tmp_path):
    async with running(in_front_of(upstream.url, ROUTE.format("second")), tmp_path) as node:
        first, second, third = [await node.chat("hello") for _ in range(3)]
        stats = await node.stats()

    assert first.cache_status.startswith("Foretold; fwd=uri-miss; key=")
    assert first.cache_status.endswith("; detail=first-sight")
    assert "; stored" in second.cache_status
    assert "detail" not in second.cache_status
    assert third.is_hit
    assert len(upstream.calls) == 2
    assert stats["stored"] == 1


async def test_a_streamed_first_answer_says_the_same(upstream, tmp_path):
    async with running(in_front_of(upstream.url, ROUTE.format("second")), tmp_path) as node:
        first, second, third = [await node.chat("hello", stream=True) for _ in range(3)]

    assert first.cache_status.endswith("; detail=first-sight")
    assert "; stored" in second.cache_status
    assert third.is_hit


async def test_a_flood_of_questions_asked_once_keeps_nothing_and_pushes_out_nothing(upstream, tmp_path):
    async with running(in_front_of(upstream.url, ROUTE.format("second")), tmp_path) as node:
        for _ in range(2):
            await node.chat("asked again")
        for number in range(50):
            await node.chat(f"once {number}")
        again = await node.chat("asked again")
        stats = await node.stats()

    assert again.is_hit
    assert stats["stored"] == 1


async def test_two_tenants_who_ask_the_same_asked_once_each(upstream, tmp_path):
    async with running(in_front_of(upstream.url, KEYS + ROUTE.format("second")), tmp_path) as node:
        one = await node.chat("hello", bearer("key-of-web"))
        other = await node.chat("hello", bearer("key-of-mobile"))

    assert one.cache_status.endswith("detail=first-sight")
    assert other.cache_status.endswith("detail=first-sight")


async def test_a_stale_record_is_replaced_at_once_however_long_ago_it_was_asked_for(upstream, tmp_path):
    clock = Clock()
    async with running(in_front_of(upstream.url, ROUTE.format("second") + NO_STALE), tmp_path, now_ms=clock) as node:
        for _ in range(2):
            await node.chat("hello")
        clock.forward(s=90_000)
        replaced = await node.chat("hello")
        again = await node.chat("hello")

    assert "fwd=stale; stored" in replaced.cache_status
    assert again.is_hit


async def test_followers_of_a_first_flight_get_its_answer_and_it_is_not_kept(upstream, tmp_path):
    goes_on = asyncio.Event()

    async def slow(call, writer, number):
        await goes_on.wait()
        await whole(writer, json.dumps(chat(call.json, text_for(call.json, number))).encode())

    upstream.on("m", slow)
    async with running(in_front_of(upstream.url, ROUTE.format("second")), tmp_path) as node:
        asking = [asyncio.create_task(node.chat("hello")) for _ in range(3)]
        await upstream.called(1)
        goes_on.set()
        answers = await asyncio.gather(*asking)
        after = await node.chat("hello")

    assert {a.text for a in answers} == {answers[0].text}
    assert not any("stored" in a.cache_status for a in answers)
    assert "; stored" in after.cache_status


@pytest.mark.parametrize(("before", "after", "is_kept"), [("first", "second", False), ("second", "first", True)])
async def test_a_changed_admission_is_in_force_with_the_next_request(upstream, tmp_path, before, after, is_kept):
    async with running(in_front_of(upstream.url, ROUTE.format(before)), tmp_path) as node:
        reloaded = await node.reload(in_front_of(upstream.url, ROUTE.format(after)))
        told = await node.chat("hello")

    assert reloaded.json == {"changed": ["routes"], "waiting": []}
    assert ("; stored" in told.cache_status) is is_kept


@pytest.mark.parametrize("share", ["", "[cache]\ntenant_share = 40\n"])
async def test_one_tenants_flood_pushes_out_nothing_of_another(upstream, tmp_path, share):
    tiers = '[[tiers]]\nstore = "memory"\nlimit = "1 MiB"\n'
    async with running(in_front_of(upstream.url, tiers + share + KEYS), tmp_path) as node:
        quiet = [f"quiet {number}" for number in range(20)]
        for text in quiet:
            await node.chat(text, bearer("key-of-web"))
        for number in range(400):
            labelled = {**bearer("key-of-mobile"), "foretold-namespace": f"l{number}"}
            await node.chat(f"{number}" * 300, labelled)
        memory = node.node.tiers.memory
        held, limit = memory.held_bytes, memory.limit_bytes
        still = [await node.chat(text, bearer("key-of-web")) for text in quiet]

    assert all(answered.is_hit for answered in still)
    assert held < limit * 0.65


async def test_without_shares_the_same_flood_pushes_them_out(upstream, tmp_path):
    tiers = '[[tiers]]\nstore = "memory"\nlimit = "1 MiB"\n[cache]\ntenant_share = 100\n'
    async with running(in_front_of(upstream.url, tiers + KEYS), tmp_path) as node:
        await node.chat("quiet", bearer("key-of-web"))
        for number in range(700):
            await node.chat(f"{number}" * 300, bearer("key-of-mobile"))
        still = await node.chat("quiet", bearer("key-of-web"))

    assert not still.is_hit


async def test_a_share_follows_the_api_keys_that_are_set(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        memory = node.node.tiers.memory
        percents = [memory.percent]
        await node.reload(in_front_of(upstream.url, KEYS))
        percents.append(memory.percent)
        reloaded = await node.reload(in_front_of(upstream.url, KEYS + "[cache]\ntenant_share = 30\n"))
        percents.append(memory.percent)

    assert percents == [100, 50, 30]
    assert reloaded.json == {"changed": ["cache.tenant_share"], "waiting": []}
