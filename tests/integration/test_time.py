"""Lifetimes and ages under a clock that jumps (rules F1 and C1)."""

from __future__ import annotations

import pytest

from tests.clock import Clock
from tests.running import in_front_of, running
from tests.waiting import until

HOUR = '[cache]\nfresh = "1h"\nstale_while_revalidate = "0s"\nstale_if_error = "2h"\n'


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def test_an_answer_is_given_for_as_long_as_it_is_fresh_and_its_age_is_told(upstream, tmp_path, clock):
    async with running(in_front_of(upstream.url, HOUR), tmp_path, now_ms=clock) as node:
        await node.chat("hello")
        clock.forward(s=3599.5)
        last = await node.chat("hello")
        clock.forward(s=0.5)
        too_old = await node.chat("hello")

    assert last.cache_status.startswith("Foretold; hit; ttl=1")
    assert last.headers["age"] == "3599"
    assert "fwd=stale" in too_old.cache_status


async def test_a_hit_from_disk_is_as_old_as_one_from_memory(upstream, tmp_path, clock):
    async with running(in_front_of(upstream.url, HOUR), tmp_path, now_ms=clock) as node:
        await node.chat("hello")
    clock.forward(s=1800)
    async with running(in_front_of(upstream.url, HOUR), tmp_path, now_ms=clock) as node:
        from_disk = await node.chat("hello")
        clock.forward(s=1000)
        from_memory = await node.chat("hello")
        clock.forward(s=800)
        gone = await node.chat("hello")

    assert from_disk.headers["age"] == "1800"
    assert from_memory.headers["age"] == "2800"
    assert not gone.is_hit


async def test_a_caller_may_accept_only_young_answers(upstream, tmp_path, clock):
    async with running(in_front_of(upstream.url, HOUR), tmp_path, now_ms=clock) as node:
        await node.chat("hello")
        clock.forward(s=100)
        taken = await node.chat("hello", {"cache-control": "max-age=100"})
        too_old = await node.chat("hello", {"cache-control": "only-if-cached, max-age=99"})
        not_long_enough = await node.chat("hello", {"cache-control": "only-if-cached, min-fresh=3501"})
        litellm = await node.chat("hello", {"cache-control": "only-if-cached"}, cache={"s-maxage": 99})
        long_enough = await node.chat("hello", {"cache-control": "min-fresh=3500"})

    assert taken.is_hit
    assert too_old.status == not_long_enough.status == litellm.status == 504
    assert long_enough.is_hit


async def test_a_caller_may_accept_a_stale_answer_within_its_windows(upstream, tmp_path, clock):
    async with running(in_front_of(upstream.url, HOUR), tmp_path, now_ms=clock) as node:
        await node.chat("hello")
        clock.forward(s=3700)
        stale = await node.chat("hello", {"cache-control": "max-stale=200"})
        too_stale = await node.chat("hello", {"cache-control": "only-if-cached, max-stale=50"})
        clock.forward(s=3 * 3600)
        dead = await node.chat("hello", {"cache-control": "only-if-cached, max-stale"})
        counted = (await node.stats())["how"]

    assert stale.cache_status.startswith("Foretold; hit; ttl=-100")
    assert stale.headers["age"] == "3700"
    assert too_stale.status == dead.status == 504
    assert counted["stale"] == 1


@pytest.mark.parametrize(
    "headers", [{"foretold-ttl": "60"}, {"cf-aig-cache-ttl": "60"}, {"x-bf-cache-ttl": "1m"}], ids=str
)
async def test_a_caller_may_lower_how_long_its_answer_is_kept(upstream, tmp_path, clock, headers):
    async with running(in_front_of(upstream.url, HOUR), tmp_path, now_ms=clock) as node:
        await node.chat("hello", headers)
        clock.forward(s=59)
        within = await node.chat("hello")
        clock.forward(s=2)
        after = await node.chat("hello", {"cache-control": "only-if-cached"})

    assert within.is_hit
    assert after.status == 504


async def test_a_caller_cannot_raise_how_long_its_answer_is_kept(upstream, tmp_path, clock):
    async with running(in_front_of(upstream.url, HOUR), tmp_path, now_ms=clock) as node:
        await node.chat("hello", {"foretold-ttl": "forever"})
        clock.forward(s=3601)
        after = await node.chat("hello")

    assert not after.is_hit


async def test_a_ttl_of_litellms_body_lowers_what_is_stored_and_not_what_is_accepted(upstream, tmp_path, clock):
    async with running(in_front_of(upstream.url, HOUR), tmp_path, now_ms=clock) as node:
        await node.chat("hello")
        clock.forward(s=100)
        accepted = await node.chat("hello", cache={"ttl": 10})
        await node.chat("other", cache={"ttl": 10})
        clock.forward(s=11)
        stored = await node.chat("other")

    assert accepted.is_hit
    assert not stored.is_hit


async def test_a_clock_set_back_makes_no_answer_live_for_ever(upstream, tmp_path, clock):
    async with running(in_front_of(upstream.url, HOUR), tmp_path, now_ms=clock) as node:
        await node.chat("hello")
        clock.forward(s=-4)
        within_allowance = await node.chat("hello")
        clock.forward(s=-3600)
        from_the_future = await node.chat("hello")
        await until(lambda: node.node.flying.refreshing.refreshed == 1)
        made_since = await node.chat("hello")

    assert within_allowance.is_hit
    assert within_allowance.headers["age"] == "0"
    assert "; hit; ttl=0;" in from_the_future.cache_status
    assert "; hit; ttl=3600;" in made_since.cache_status
    assert made_since.text != from_the_future.text


async def test_a_clock_set_forward_by_years_serves_nothing_as_fresh(upstream, tmp_path, clock):
    async with running(in_front_of(upstream.url, HOUR), tmp_path, now_ms=clock) as node:
        await node.chat("hello")
        clock.forward(s=10 * 365 * 86_400)
        later = await node.chat("hello")
        again = await node.chat("hello")

    assert not later.is_hit
    assert again.is_hit


async def test_forever_is_the_ceiling_of_thirty_days(upstream, tmp_path, clock):
    settings = in_front_of(upstream.url, '[cache]\nfresh = "forever"\n')
    async with running(settings, tmp_path, now_ms=clock) as node:
        await node.chat("hello")
        clock.forward(s=2_592_000 - 1)
        last = await node.chat("hello")

    assert last.cache_status.startswith("Foretold; hit; ttl=1;")


async def test_the_age_an_upstream_tells_counts(upstream, tmp_path, clock):
    import json

    from tests.fakes.upstream import chat, whole

    async def aged(call, writer, serial):
        await whole(writer, json.dumps(chat(call.json, "x")).encode(), more="age: 600\r\n")

    upstream.on("m", aged)
    async with running(in_front_of(upstream.url, HOUR), tmp_path, now_ms=clock) as node:
        await node.chat("hello")
        hit = await node.chat("hello")

    assert hit.headers["age"] == "600"
    assert hit.cache_status.startswith("Foretold; hit; ttl=3000")
