"""A stale answer is given at once while one flight fetches the new one, behind its caller's back (rule F1)."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.clock import Clock
from tests.fakes.upstream import answer, chat, text_for, whole
from tests.integration.peeking import side
from tests.integration.test_peek import known_request
from tests.running import in_front_of, running
from tests.waiting import until

TIMES = '[cache]\nfresh = "1h"\nstale_while_revalidate = "1h"\nstale_if_error = "0s"\n'
PAST_FRESH_S = 3700


@pytest.fixture
def clock() -> Clock:
    return Clock()


def refreshing(node):
    return node.node.flying.refreshing


async def refreshed(node, times: int = 1) -> None:
    await until(lambda: refreshing(node).refreshed == times)


def at(upstream, tmp_path, clock, settings=TIMES):
    return running(in_front_of(upstream.url, settings), tmp_path, now_ms=clock, monotonic_ms=clock)


def failing(status):
    async def reply(call, writer, serial):
        await whole(writer, json.dumps({"error": {"message": "no"}}).encode(), status=status)

    return reply


def held_back(gate: asyncio.Event):
    async def reply(call, writer, serial):
        await gate.wait()
        await whole(writer, json.dumps(chat(call.json, text_for(call.json, serial))).encode())

    return reply


async def test_a_stale_answer_is_given_at_once_and_the_next_caller_gets_the_new_one(upstream, tmp_path, clock):
    async with at(upstream, tmp_path, clock) as node:
        first = await node.chat("hello")
        clock.forward(s=PAST_FRESH_S)
        stale = await node.chat("hello")
        await refreshed(node)
        new = await node.chat("hello")
        counted = await node.stats()

    assert stale.text == first.text
    assert stale.cache_status.startswith("Foretold; hit; ttl=-100; key=")
    assert "detail" not in stale.cache_status
    assert stale.headers["age"] == "3700"
    assert new.cache_status.startswith("Foretold; hit; ttl=3600; key=")
    assert "call 2" in new.text
    assert (counted["refreshed"], counted["refresh_failed"]) == (1, 0)
    assert counted["how"] | {"miss": 1, "stale": 1, "hit": 1} == counted["how"]
    assert counted["received"] == sum(counted["how"].values()) == 3


async def test_many_callers_get_the_stale_answer_while_one_call_fetches_the_new_one(upstream, tmp_path, clock):
    gate = asyncio.Event()
    async with at(upstream, tmp_path, clock) as node:
        first = await node.chat("hello")
        clock.forward(s=PAST_FRESH_S)
        upstream.on("m", held_back(gate))
        stale = await asyncio.gather(*(node.chat("hello", stream=n % 2 == 0) for n in range(40)))
        calls_meanwhile = len(upstream.calls)
        gate.set()
        await refreshed(node)

    assert {a.text for a in stale} == {first.text}
    assert all("; hit; ttl=-100;" in a.cache_status for a in stale)
    assert calls_meanwhile <= 2
    assert len(upstream.calls) == 2


async def test_a_refresh_is_the_query_of_the_caller_who_came_first_with_its_own_credential(upstream, tmp_path, clock):
    settings = TIMES + '[[routes]]\nname = "r"\nmodels = ["*"]\nupstream = "fake"\npass_credential = true\n'
    mine, other = {"authorization": "Bearer mine"}, {"authorization": "Bearer other"}
    async with at(upstream, tmp_path, clock, settings) as node:
        await node.chat("hello", mine)
        await node.chat("hello", other)
        clock.forward(s=PAST_FRESH_S)
        await node.chat("hello", mine)
        await refreshed(node)
        still_stale = await node.chat("hello", {**other, "cache-control": "only-if-cached"})

    assert [call.header("authorization") for call in upstream.calls] == ["Bearer mine", "Bearer other", "Bearer mine"]
    assert "; ttl=-100;" in still_stale.cache_status


@pytest.mark.parametrize("status", [401, 404, 429, 500, 503])
async def test_a_refresh_that_fails_leaves_the_record_and_is_not_tried_again_for_a_second(
    upstream, tmp_path, clock, status
):
    retries = "retries = 0\n"
    async with at(upstream, tmp_path, clock, retries + TIMES) as node:
        first = await node.chat("hello")
        clock.forward(s=PAST_FRESH_S)
        upstream.on("m", failing(status))
        answers = [await node.chat("hello")]
        await until(lambda: refreshing(node).failed == 1)
        answers += [await node.chat("hello") for _ in range(5)]
        calls_in_the_second = len(upstream.calls)
        clock.forward(s=1)
        answers.append(await node.chat("hello"))
        await until(lambda: refreshing(node).failed == 2)
        upstream.on("m", answer)
        clock.forward(s=1)
        answers.append(await node.chat("hello"))
        await refreshed(node)
        new = await node.chat("hello")
        counted = await node.stats()

    assert {a.text for a in answers} == {first.text}
    assert calls_in_the_second == 2
    assert len(upstream.calls) == 4
    assert "; ttl=3600;" in new.cache_status
    assert counted["received"] == sum(counted["how"].values()) == 10
    assert (counted["refreshed"], counted["refresh_failed"]) == (1, 2)


async def test_no_refresh_is_tried_within_a_second_of_a_failure_that_another_caller_met(upstream, tmp_path, clock):
    async with at(upstream, tmp_path, clock, "retries = 0\n" + TIMES) as node:
        await node.chat("hello")
        clock.forward(s=PAST_FRESH_S)
        upstream.on("m", failing(500))
        told = await node.chat("hello", {"cache-control": "no-cache"})
        stale = await node.chat("hello")
        tries_in_the_second = len(refreshing(node)) + refreshing(node).failed
        clock.forward(s=1)
        await node.chat("hello")
        await upstream.called(3)

    assert told.status == 500
    assert "; hit; ttl=-100;" in stale.cache_status
    assert tries_in_the_second == 0


async def test_a_refresh_that_brings_what_cannot_be_kept_leaves_the_record(upstream, tmp_path, clock):
    async def empty(call, writer, serial):
        await whole(writer, json.dumps(chat(call.json, "")).encode())

    async with at(upstream, tmp_path, clock) as node:
        first = await node.chat("hello")
        clock.forward(s=PAST_FRESH_S)
        upstream.on("m", empty)
        await node.chat("hello")
        await until(lambda: refreshing(node).failed == 1)
        again = await node.chat("hello")

    assert again.text == first.text
    assert len(upstream.calls) == 2


@pytest.mark.parametrize(
    "headers",
    [
        {"cache-control": "max-age=100000"},
        {"cache-control": "min-fresh=1"},
        {"cache-control": "no-cache"},
        {"cache-control": "max-stale=99"},
        {"foretold-ttl": "forever"},
        {"cf-aig-cache-ttl": "5"},
    ],
    ids=str,
)
async def test_who_asks_for_a_fresh_answer_gets_no_stale_one(upstream, tmp_path, clock, headers):
    async with at(upstream, tmp_path, clock) as node:
        await node.chat("hello")
        clock.forward(s=PAST_FRESH_S)
        asked = await node.chat("hello", headers)

    assert "; hit" not in asked.cache_status
    assert "call 2" in asked.text


async def test_who_wants_only_what_is_cached_gets_the_stale_answer_and_has_nothing_fetched(upstream, tmp_path, clock):
    async with at(upstream, tmp_path, clock) as node:
        await node.chat("hello")
        clock.forward(s=PAST_FRESH_S)
        answers = [await node.chat("hello", {"cache-control": "only-if-cached"}) for _ in range(3)]
        is_resting = len(refreshing(node)) == 0
        clock.forward(s=3600)
        after = await node.chat("hello", {"cache-control": "only-if-cached"})

    assert all("; hit; ttl=-100;" in a.cache_status for a in answers)
    assert is_resting
    assert len(upstream.calls) == 1
    assert after.status == 504


async def test_after_the_window_the_caller_waits_for_the_new_answer(upstream, tmp_path, clock):
    async with at(upstream, tmp_path, clock) as node:
        await node.chat("hello")
        clock.forward(s=7199.999)
        last = await node.chat("hello", {"cache-control": "only-if-cached"})
        clock.forward(s=0.001)
        after = await node.chat("hello")

    assert "; hit; ttl=-3599;" in last.cache_status
    assert "; hit" not in after.cache_status
    assert "call 2" in after.text


async def test_a_stale_answer_from_disk_is_given_and_refreshed_too(upstream, tmp_path, clock):
    async with at(upstream, tmp_path, clock) as node:
        first = await node.chat("hello")
    clock.forward(s=PAST_FRESH_S)
    async with at(upstream, tmp_path, clock) as node:
        stale = await node.chat("hello")
        await refreshed(node)
    async with at(upstream, tmp_path, clock) as node:
        new = await node.chat("hello")

    assert stale.text == first.text
    assert "; ttl=-100;" in stale.cache_status
    assert "; ttl=3600;" in new.cache_status


async def test_a_refresh_does_not_outlive_its_node(upstream, tmp_path, clock):
    async with at(upstream, tmp_path, clock) as node:
        await node.chat("hello")
        clock.forward(s=PAST_FRESH_S)
        upstream.on("m", held_back(asyncio.Event()))
        stale = await node.chat("hello")
        await upstream.called(2)
        flying = refreshing(node)

    await asyncio.wait_for(upstream.calls[1].cut.wait(), 10)
    assert stale.is_hit
    assert (len(flying), flying.refreshed, flying.failed) == (0, 0, 0)


async def test_a_purge_while_a_refresh_flies_kills_the_old_answer_and_the_new_one(upstream, tmp_path, clock):
    gate = asyncio.Event()
    async with at(upstream, tmp_path, clock) as node:
        await node.chat("hello")
        clock.forward(s=PAST_FRESH_S)
        upstream.on("m", held_back(gate))
        await node.chat("hello")
        await upstream.called(2)
        await node.purge(everything=True)
        gate.set()
        await until(lambda: refreshing(node).failed == 1)
        after = await node.chat("hello")

    assert not after.is_hit
    assert "call 3" in after.text


async def test_known_requests_get_stale_answers_from_the_protocol_too(upstream, tmp_path, clock):
    async with side(in_front_of(upstream.url, TIMES), tmp_path, peeks=True, now_ms=clock) as peeks:
        gate = asyncio.Event()
        request = await known_request(peeks)
        clock.forward(s=PAST_FRESH_S)
        upstream.on("m", held_back(gate))
        line, protocol = peeks.connect()

        for _ in range(3):
            protocol.data_received(request)

        assert line.written.count(b"cache-status: Foretold; hit; ttl=-100; ") == 3
        assert not peeks.tasks
        await upstream.called(2)
        gate.set()
        await peeks.all_answered()
        protocol.data_received(request)
        assert line.written.count(b"cache-status: Foretold; hit; ttl=3600; ") == 1
        assert len(upstream.calls) == 2


async def test_head_gets_the_stale_answer_of_a_get_and_has_nothing_fetched(upstream, tmp_path, clock):
    async def item(call, writer, serial):
        await whole(writer, b'{"a": 1}')

    upstream.on("/items/1", item)
    settings = TIMES + '[[routes]]\nname = "items"\nkind = "get"\npath = "/items/*"\nupstream = "fake"\n'
    async with running(
        in_front_of(upstream.url.removesuffix("/v1"), settings), tmp_path, now_ms=clock, monotonic_ms=clock
    ) as node:
        await node.send("GET", "/items/1")
        clock.forward(s=PAST_FRESH_S)
        head = await node.send("HEAD", "/items/1")

    assert "; hit; ttl=-100;" in head.cache_status
    assert [call.method for call in upstream.calls] == ["GET"]
