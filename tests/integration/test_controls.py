"""What a request asks about caching is done (rules C1 to C3), over real sockets."""

from __future__ import annotations

import asyncio

import pytest

from tests.asking import chat_body
from tests.fakes.upstream import answer
from tests.running import in_front_of, running

REFRESH = [
    {"cache-control": "no-cache"},
    {"x-portkey-cache-force-refresh": "true"},
]
PASS = [
    {"cache-control": "no-store"},
    {"cf-aig-skip-cache": "true"},
    {"helicone-cache-enabled": "false"},
    {"x-bf-cache-no-store": "true"},
]
NARROWER = [
    {"foretold-namespace": "mine"},
    {"cf-aig-cache-key": "mine"},
    {"x-portkey-cache-namespace": "mine"},
    {"helicone-cache-seed": "mine"},
    {"x-bf-cache-key": "mine"},
]
INDIFFERENT = [
    {"helicone-cache-enabled": "true"},
    {"x-portkey-cache": "simple"},
    {"x-bf-cache-type": "direct"},
    {"cf-aig-skip-cache": "false"},
]


@pytest.mark.parametrize("headers", REFRESH, ids=str)
async def test_a_forced_refresh_asks_the_upstream_and_keeps_its_new_answer(upstream, tmp_path, headers):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await node.chat("hello")
        refreshed = await node.chat("hello", headers)
        after = await node.chat("hello")

    assert refreshed.cache_status.startswith("Foretold; fwd=request; stored")
    assert "call 2" in refreshed.text
    assert after.is_hit
    assert after.text == refreshed.text


async def test_an_answer_asked_for_before_a_refresh_never_replaces_it(upstream, tmp_path):
    gate = asyncio.Event()

    async def first_waits(call, writer, serial):
        if serial == 1:
            await gate.wait()
        await answer(call, writer, serial)

    upstream.on("m", first_waits)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        asking = asyncio.create_task(node.chat("hello"))
        await upstream.called(1)
        refreshed = await node.chat("hello", {"cache-control": "no-cache"})
        gate.set()
        asked_before = await asking
        after = await node.chat("hello")
        stored = (await node.stats())["stored"]

    assert "call 1" in asked_before.text
    assert "call 2" in refreshed.text
    assert after.is_hit
    assert after.text == refreshed.text
    assert stored == 1


@pytest.mark.parametrize("headers", PASS, ids=str)
async def test_an_answer_that_may_not_be_kept_is_neither_read_nor_written(upstream, tmp_path, headers):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await node.chat("hello", headers)
        passed = await node.chat("hello", headers)
        first = await node.chat("hello")
        passed_again = await node.chat("hello", headers)

    assert passed.cache_status == "Foretold; fwd=bypass; detail=no-store"
    assert first.cache_status.startswith("Foretold; fwd=uri-miss; stored")
    assert not passed_again.is_hit
    assert len(upstream.calls) == 4


@pytest.mark.parametrize("headers", NARROWER, ids=str)
async def test_a_narrower_namespace_has_its_own_answers(upstream, tmp_path, headers):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        wide = await node.chat("hello")
        narrow = await node.chat("hello", headers)
        again = await node.chat("hello", headers)
        other = await node.chat("hello", dict.fromkeys(headers, "other"))

    assert "fwd=uri-miss" in narrow.cache_status
    assert again.is_hit
    assert again.text == narrow.text != wide.text
    assert not other.is_hit


@pytest.mark.parametrize("headers", INDIFFERENT, ids=str)
async def test_headers_that_switch_a_cache_on_change_nothing(upstream, tmp_path, headers):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await node.chat("hello")
        again = await node.chat("hello", headers)

    assert again.is_hit


async def test_the_body_controls_of_litellm_are_obeyed_and_never_reach_the_upstream(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await node.chat("hello")
        refreshed = await node.chat("hello", cache={"no-cache": True})
        passed = await node.chat("hello", cache={"no-store": True})
        narrow = await node.chat("hello", cache={"namespace": "mine"})
        after = await node.chat("hello", cache={})

    assert "fwd=request; stored" in refreshed.cache_status
    assert passed.cache_status == "Foretold; fwd=bypass; detail=no-store"
    assert "fwd=uri-miss" in narrow.cache_status
    assert after.is_hit
    assert after.text == refreshed.text
    assert all("cache" not in call.json for call in upstream.calls)


async def test_no_control_ever_reaches_the_upstream(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        for headers in [*REFRESH, *PASS, *NARROWER, *INDIFFERENT, {"foretold-ttl": "60"}, {"foretold-tags": "a"}]:
            await node.chat("hello", headers)

    sent = {name for call in upstream.calls for name, _ in call.headers}
    assert sent <= {"host", "accept", "accept-encoding", "content-type", "content-length", "user-agent"}


async def test_another_sample_is_another_draw(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        first = await node.chat("hello", {"foretold-sample": "0"})
        second = await node.chat("hello", {"foretold-sample": "1"})
        again = await node.chat("hello", {"foretold-sample": "1"})
        plain = await node.chat("hello")

    assert plain.text == first.text != second.text == again.text


async def test_buckets_draw_among_as_many_answers_as_they_hold(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        texts = {(await node.chat("hello", {"helicone-cache-bucket-max-size": "3"})).text for _ in range(60)}

    assert len(texts) == len(upstream.calls) == 3


async def test_ignored_members_are_ignored_only_among_those_who_ignore_them(upstream, tmp_path):
    ignoring = {"helicone-cache-ignore-keys": "seed, messages"}
    async with running(in_front_of(upstream.url), tmp_path) as node:
        wide = await node.chat("hello", seed=1)
        first = await node.chat("hello", ignoring, seed=1)
        second = await node.chat("hello", ignoring, seed=2)
        other_question = await node.chat("bye", ignoring, seed=1)

    assert not first.is_hit
    assert second.is_hit
    assert second.text == first.text != wide.text
    assert not other_question.is_hit
    assert "detail=ignored-helicone-cache-ignore-keys" in first.cache_status


async def test_only_if_cached_is_a_hit_or_a_504_and_never_a_call(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        absent = await node.chat("hello", {"cache-control": "only-if-cached"})
        await node.chat("hello")
        present = await node.chat("hello", {"cache-control": "only-if-cached"})
        counted = (await node.stats())["how"]

    assert absent.status == 504
    assert absent.cache_status == "Foretold; fwd=request; detail=only-if-cached"
    assert absent.json["error"]["code"] == "not_kept"
    assert present.is_hit
    assert len(upstream.calls) == 1
    assert counted == {"hit": 1, "stale": 0, "collapsed": 0, "miss": 2, "pass": 0, "error": 0}


@pytest.mark.parametrize("passing", [{"cache-control": "only-if-cached, no-store"}, {"cf-aig-skip-cache": "true"}])
async def test_only_if_cached_asks_nobody_even_where_the_query_passes(upstream, tmp_path, passing):
    headers = {"cache-control": "only-if-cached", **passing}
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await node.chat("hello")
        passed = await node.chat("hello", headers)
        side_effect = await node.chat("hello", {"cache-control": "only-if-cached"}, store=True)
        undeclared = await node.send("GET", "/v1/files", headers={"cache-control": "only-if-cached"})

    assert [a.status for a in (passed, side_effect, undeclared)] == [504, 504, 504]
    assert len(upstream.calls) == 1


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("foretold-ttl", "soon"),
        ("foretold-ttl", "2592001"),
        ("foretold-ttl", "-1"),
        ("foretold-sample", "100"),
        ("foretold-tags", "Capital"),
        ("foretold-tags", " ".join(f"t{i}" for i in range(17))),
        ("foretold-namespace", ""),
        ("foretold-pace", "slow"),
        ("foretold-tll", "60"),
    ],
)
async def test_a_control_of_ours_that_cannot_be_read_is_refused_by_name(upstream, tmp_path, header, value):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        refused = await node.chat("hello", {header: value})

    assert refused.status == 400
    assert refused.json["error"]["param"] == header
    assert refused.json["error"]["code"] == "bad_control"
    assert upstream.calls == []


async def test_an_alias_that_cannot_be_read_is_ignored_and_named(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        answered = await node.chat("hello", {"cf-aig-cache-ttl": "soon"})

    assert "stored" in answered.cache_status
    assert "detail=ignored-cf-aig-cache-ttl" in answered.cache_status


async def test_a_ttl_of_zero_is_a_value(upstream, tmp_path):
    settings = in_front_of(upstream.url, '[cache]\nstale_while_revalidate = "0s"\n')
    async with running(settings, tmp_path) as node:
        await node.chat("hello", {"foretold-ttl": "0"})
        again = await node.chat("hello")

    assert not again.is_hit
    assert "fwd=stale" in again.cache_status


async def test_controls_may_come_in_the_query_string_and_are_taken_out_of_it(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await node.chat("hello")
        with_query = await node.post("/v1/chat/completions?foretold-sample=0&a=1", chat_body("hello"))
        again = await node.post("/v1/chat/completions?a=1", chat_body("hello"))

    assert not with_query.is_hit
    assert again.is_hit
    assert upstream.calls[1].target == "/v1/chat/completions?a=1"


async def test_an_ignored_alias_is_named_on_a_hit_too(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await node.chat("hello")
        hit = await node.chat("hello", {"cf-aig-cache-ttl": "soon"})
        plain = await node.chat("hello")

    assert hit.is_hit
    assert "detail=ignored-cf-aig-cache-ttl" in hit.cache_status
    assert "detail" not in plain.cache_status
