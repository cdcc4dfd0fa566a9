"""Observe mode: every query goes to its origin, and what would have been a hit is counted, exactly."""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.asking import chat_body
from tests.clock import Clock
from tests.fakes.upstream import FakeUpstream, answer, chat, text_for, whole
from tests.integration.test_tenants import KEYS, bearer
from tests.running import Client, in_front_of, running
from tests.waiting import until

OBSERVE = 'mode = "observe"\n'
SHORT = '[cache]\nfresh = "60s"\nstale_while_revalidate = "{behind_s}s"\nstale_if_error = "90s"\n'


@dataclass(frozen=True)
class Recorded:
    """One request of recorded traffic, and how long after the one before it came."""

    after_s: float
    headers: dict[str, str]
    body: dict[str, Any]


def traffic(seed: int, count: int) -> list[Recorded]:
    """Zipf-like: few questions often, many once; two tenants, both shapes, wishes of every kind, and errors."""
    chance = random.Random(seed)
    recorded = []
    for _ in range(count):
        question = int(chance.paretovariate(0.9))
        headers = bearer(chance.choice(["key-of-web", "key-of-mobile"]))
        wish = chance.random()
        if wish < 0.1:
            headers["cache-control"] = "max-stale=30"
        elif wish < 0.15:
            headers["cache-control"] = chance.choice(["no-cache", "no-store", "max-age=20", "min-fresh=50"])
        elif wish < 0.18:
            headers["foretold-ttl"] = "15"
        elif wish < 0.2:
            headers["foretold-namespace"] = "a"
        members: dict[str, Any] = {"temperature": chance.choice([0, 0.0, 1])}
        if chance.random() < 0.4:
            members |= {"stream": True}
            if chance.random() < 0.5:
                members |= {"stream_options": {"include_usage": True}}
        if chance.random() < 0.03:
            members |= {"store": True}
        model = "broken" if chance.random() < 0.05 else "m"
        body = chat_body(f"question {min(question, 500)}", **members) | {"model": model}
        recorded.append(Recorded(chance.expovariate(2.0), headers, body))
    return recorded


async def replayed(node: Client, clock: Clock, recorded: list[Recorded]) -> None:
    for one in recorded:
        clock.forward(s=one.after_s)
        await node.post("/v1/chat/completions", one.body, one.headers)
        # What flies behind a caller's back has landed before the next one asks, in either mode.
        await until(lambda: len(node.node.flights) == len(node.node.flying.refreshing) == 0)


async def broken(call, writer, number):
    await whole(writer, b'{"error":{"message":"no"}}', status=400)


def out_of_order(clock: Clock, every_s: int):
    """An upstream that is down for a quarter of the time."""

    async def reply(call, writer, number):
        if clock.now_ms // 1000 % every_s < every_s // 4:
            await whole(writer, b'{"error":{"message":"down"}}', status=500)
        else:
            await answer(call, writer, number)

    return reply


@pytest.mark.parametrize("behind_s", [0, 45])
@pytest.mark.parametrize("outages", [False, True], ids=["always up", "at times down"])
async def test_what_is_observed_is_exactly_what_serving_then_shows(tmp_path: Path, behind_s: int, outages: bool):
    recorded = traffic(seed=3, count=800)
    counted = {}
    for mode, settings in (("observe", OBSERVE), ("serve", "")):
        clock = Clock()
        async with FakeUpstream() as upstream:
            upstream.on("broken", broken)
            if outages:
                upstream.on("m", out_of_order(clock, 100))
            settings += in_front_of(upstream.url, KEYS + SHORT.format(behind_s=behind_s))
            async with running(settings, tmp_path / mode, now_ms=clock, monotonic_ms=clock) as node:
                await replayed(node, clock, recorded)
                counted[mode] = await node.stats()
                calls = len(upstream.calls)
        assert mode == "serve" or calls == len(recorded)

    observed, served = counted["observe"], counted["serve"]
    assert observed["mode"] == "observe"
    assert observed["how"]["hit"] == observed["how"]["stale"] == 0
    assert observed["would_be"]["hit"] == served["how"]["hit"] > 150
    assert observed["would_be"]["stale"] == served["how"]["stale"] > 0
    assert observed["would_be"]["collapsed"] == served["how"]["collapsed"]
    assert observed["refreshed"] == served["refreshed"]
    assert observed["refresh_failed"] == served["refresh_failed"]
    assert (served["refreshed"] > 0) == (behind_s > 0)
    assert (served["how"]["collapsed"] > 0) == outages
    assert served["would_be"] == {"hit": 0, "stale": 0, "collapsed": 0}


async def test_an_observing_node_serves_none_and_says_what_it_would_have_done(upstream, tmp_path):
    async with running(OBSERVE + in_front_of(upstream.url), tmp_path) as node:
        first = await node.chat("hello")
        second = await node.chat("hello")
        only = await node.chat("hello", {"cache-control": "only-if-cached"})

    assert first.cache_status.startswith("Foretold; fwd=uri-miss; stored; key=")
    assert second.cache_status.startswith("Foretold; fwd=bypass; key=")
    assert second.cache_status.endswith("; detail=would-be-hit")
    assert second.text != first.text
    assert only.status == 504
    assert len(upstream.calls) == 2


async def test_only_if_cached_asks_nobody_also_for_an_answer_that_takes_long_to_make(upstream, tmp_path):
    long = "x" * 400_000
    async with running(OBSERVE + in_front_of(upstream.url), tmp_path) as node:
        await node.chat(long, stream=True)
        whole_of_it = await node.chat(long, {"cache-control": "only-if-cached"})

    assert whole_of_it.status == 504
    assert len(upstream.calls) == 1


async def test_callers_at_once_each_get_their_own_answer_while_observing(upstream, tmp_path):
    goes_on = asyncio.Event()

    async def slow(call, writer, number):
        await goes_on.wait()
        await whole(writer, json.dumps(chat(call.json, text_for(call.json, number))).encode())

    upstream.on("m", slow)
    async with running(OBSERVE + in_front_of(upstream.url), tmp_path) as node:
        asking = [asyncio.create_task(node.chat("hello")) for _ in range(5)]
        await upstream.called(5)
        goes_on.set()
        answers = await asyncio.gather(*asking)
        counted = await node.stats()

    assert [a.status for a in answers] == [200] * 5
    assert counted["would_be"] == {"hit": 0, "stale": 0, "collapsed": 4}
    assert counted["how"]["miss"] == 1
    assert counted["how"]["pass"] == 4


async def test_serving_begins_with_what_observing_kept(upstream, tmp_path):
    async with running(OBSERVE + in_front_of(upstream.url), tmp_path) as node:
        observed = await node.chat("hello")
        reloaded = await node.reload(in_front_of(upstream.url))
        served = await node.chat("hello")

    assert reloaded.json["changed"] == ["mode"]
    assert served.is_hit
    assert served.text == observed.text


async def test_the_refresh_that_serving_would_do_is_the_observed_callers_own_answer(upstream, tmp_path):
    clock = Clock()
    settings = OBSERVE + in_front_of(upstream.url, '[cache]\nfresh = "60s"\n')
    async with running(settings, tmp_path, now_ms=clock, monotonic_ms=clock) as node:
        await node.chat("hello")
        clock.forward(s=70)
        observed = await node.chat("hello")
        await until(lambda: node.node.flying.refreshing.refreshed == 1)
        next_one = await node.chat("hello")
        counted = await node.stats()

    assert observed.cache_status.endswith("; detail=would-be-stale")
    assert observed.text == "You said 'hello'. This is call 2."
    assert next_one.cache_status.endswith("; detail=would-be-hit")
    assert len(upstream.calls) == 3
    assert counted["how"] | {"miss": 1, "pass": 2} == counted["how"]
    assert counted["would_be"] == {"hit": 1, "stale": 1, "collapsed": 0}


async def test_a_stale_answer_that_would_stand_in_is_counted_and_the_error_is_told(upstream, tmp_path):
    clock = Clock()
    settings = OBSERVE + in_front_of(upstream.url, "retries = 0\n" + SHORT.format(behind_s=0))
    async with running(settings, tmp_path, now_ms=clock, monotonic_ms=clock) as node:
        await node.chat("hello")
        clock.forward(s=70)
        upstream.on("m", down)
        told = [await node.chat("hello"), await node.chat("hello")]
        counted = await node.stats()

    assert [a.status for a in told] == [500, 500]
    assert [a.json["error"]["serial"] for a in told] == [2, 3]
    assert all("detail=would-be-stale" in a.cache_status for a in told)
    assert counted["would_be"] == {"hit": 0, "stale": 2, "collapsed": 0}


async def down(call, writer, number):
    await whole(writer, json.dumps({"error": {"serial": number}}).encode(), status=500)
