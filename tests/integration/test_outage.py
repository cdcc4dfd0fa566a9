"""What callers get while an upstream fails, and when it is back (rules F1, L1, U1)."""

from __future__ import annotations

import asyncio
import json
import random
import re

import pytest

from tests.clock import Clock
from tests.fakes.upstream import FakeUpstream, answer, chat, chunks_of, stream, whole
from tests.running import in_front_of, running
from tests.waiting import until

TIMES = '[cache]\nfresh = "1h"\nstale_while_revalidate = "0s"\nstale_if_error = "1h"\n'
PAST_FRESH_S = 3700


@pytest.fixture
def clock() -> Clock:
    return Clock()


def at(upstream, tmp_path, clock, settings=TIMES):
    return running(in_front_of(upstream.url, f"retries = 0\n{settings}"), tmp_path, now_ms=clock, monotonic_ms=clock)


def failing(status, *, more=""):
    async def reply(call, writer, serial):
        body = json.dumps({"error": {"message": "no", "serial": serial}}).encode()
        await whole(writer, body, status=status, more=more)

    return reply


async def cuts_before_its_first_byte(call, writer, serial):
    writer.close()


async def is_silent(call, writer, serial):
    await call.cut.wait()


FAILURES = {f"{status}": failing(status) for status in (429, 500, 502, 503, 504, 529)}
FAILURES["a cut before its first byte"] = cuts_before_its_first_byte
FAILURES["a time-out"] = is_silent


@pytest.mark.parametrize("failure", FAILURES, ids=str)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_a_stale_answer_stands_in_when_the_origin_fails(upstream, tmp_path, clock, failure, streamed):
    settings = 'first_byte_timeout = "1s"\n' + TIMES
    async with at(upstream, tmp_path, clock, settings) as node:
        first = await node.chat("hello")
        clock.forward(s=PAST_FRESH_S)
        upstream.on("m", FAILURES[failure])
        stale = await node.chat("hello", stream=streamed)
        counted = await node.stats()

    assert stale.status == 200
    assert stale.text == first.text
    assert streamed or stale.body == first.body
    assert re.fullmatch(r'Foretold; hit; ttl=-100; key="\w{64}"; detail=stale-if-error', stale.cache_status)
    assert stale.headers["age"] == "3700"
    assert counted["how"]["stale"] == 1
    assert counted["received"] == sum(counted["how"].values())
    assert len(upstream.calls) >= 2


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 409, 422])
async def test_a_refusal_is_no_failure_and_is_told(upstream, tmp_path, clock, status):
    async with at(upstream, tmp_path, clock) as node:
        await node.chat("hello")
        clock.forward(s=PAST_FRESH_S)
        upstream.on("m", failing(status))
        told = await node.chat("hello")

    assert told.status == status
    assert "fwd=stale" in told.cache_status


@pytest.mark.parametrize(
    "wish", ["max-age=100000", "min-fresh=1", "no-cache", "max-stale=99", "max-age=1, max-stale"], ids=str
)
async def test_who_asks_for_a_fresh_answer_gets_the_error(upstream, tmp_path, clock, wish):
    async with at(upstream, tmp_path, clock) as node:
        await node.chat("hello")
        clock.forward(s=PAST_FRESH_S)
        upstream.on("m", failing(500))
        told = await node.chat("hello", {"cache-control": wish})

    assert told.status == 500


async def test_a_stale_answer_stands_in_no_longer_than_its_window(upstream, tmp_path, clock):
    async with at(upstream, tmp_path, clock) as node:
        await node.chat("hello")
        upstream.on("m", failing(500))
        clock.forward(s=7199)
        last = await node.chat("hello")
        clock.forward(s=1)
        after = await node.chat("hello")

    assert last.status == 200
    assert after.status == 500


async def test_a_stale_answer_that_was_purged_while_the_origin_failed_is_given_to_nobody(upstream, tmp_path, clock):
    gate = asyncio.Event()

    async def fails_late(call, writer, serial):
        await gate.wait()
        await failing(500)(call, writer, serial)

    async with at(upstream, tmp_path, clock) as node:
        answers = []
        for purge in ({"key": True}, {"model": "m"}):
            gate.clear()
            upstream.on("m", answer)
            kept = await node.chat("hello", {"cache-control": "no-cache"})
            clock.forward(s=PAST_FRESH_S)
            upstream.on("m", fails_late)
            calls = len(upstream.calls)
            asking = asyncio.create_task(node.chat("hello"))
            await upstream.called(calls + 1)
            key = re.search(r'key="(\w+)"', kept.cache_status)[1]
            await node.purge(**({"key": key} if "key" in purge else purge))
            gate.set()
            answers.append(await asking)

    assert [a.status for a in answers] == [500, 500]


async def test_an_error_is_told_to_later_callers_for_one_second_and_then_one_asks(upstream, tmp_path, clock):
    upstream.on("m", failing(503, more="retry-after: 60\r\nx-request-id: mine\r\n"))
    async with at(upstream, tmp_path, clock) as node:
        first = await node.chat("hello")
        clock.forward(s=0.999)
        again = [await node.chat("hello"), await node.chat("hello", stream=True)]
        other = await node.chat("something else")
        clock.forward(s=0.001)
        gate = asyncio.Event()

        async def comes_back(call, writer, serial):
            await gate.wait()
            await answer(call, writer, serial)

        upstream.on("m", comes_back)
        asking = [asyncio.create_task(node.chat("hello")) for _ in range(10)]
        await upstream.called(3)
        await until(lambda: node.node.counters.received == 14)
        gate.set()
        back = await asyncio.gather(*asking)
        counted = await node.stats()

    for told in again:
        assert told.status == 503
        assert told.body == first.body
        assert re.fullmatch(r'Foretold; fwd=uri-miss; collapsed; key="\w{64}"; detail=backoff', told.cache_status)
        assert told.headers["retry-after"] == "1"
        assert "x-request-id" not in told.headers
    assert first.headers["retry-after"] == "60"
    assert "collapsed" not in other.cache_status
    assert {a.text for a in back} == {"You said 'hello'. This is call 3."}
    assert len(upstream.calls) == 3
    assert counted["received"] == sum(counted["how"].values()) == 14


async def test_no_answer_at_all_is_told_to_later_callers_as_the_same_error(upstream, tmp_path, clock):
    await upstream.goes_down()
    async with at(upstream, tmp_path, clock) as node:
        first = await node.chat("hello")
        again = await node.chat("hello")
        await upstream.comes_back()
        still = await node.chat("hello")
        refreshed = await node.chat("hello", {"cache-control": "no-cache"})
        counted = await node.stats()

    assert first.status == again.status == still.status == 502
    assert again.json == first.json
    assert "detail" in first.cache_status
    assert "backoff" not in first.cache_status
    assert again.cache_status == "Foretold; detail=backoff"
    assert again.headers["retry-after"] == "1"
    assert refreshed.status == 200
    assert counted["received"] == sum(counted["how"].values())


async def test_changed_settings_forget_that_the_old_upstream_failed(upstream, tmp_path, clock):
    async with FakeUpstream() as gone:
        url = gone.url
    async with running(in_front_of(url, "retries = 0\n"), tmp_path, now_ms=clock, monotonic_ms=clock) as node:
        failed = await node.chat("hello")
        await node.reload(in_front_of(upstream.url))
        answered = await node.chat("hello")

    assert failed.status == 502
    assert answered.status == 200


async def test_a_tenant_is_not_told_what_anothers_query_came_to(upstream, tmp_path, clock):
    upstream.on("m", failing(500))
    async with at(upstream, tmp_path, clock) as node:
        told = [await node.chat("hello", {"authorization": f"Bearer {who}"}) for who in ("one", "other")]

    assert len(upstream.calls) == 2
    assert [a.json["error"]["serial"] for a in told] == [1, 2]


WITH_FALLBACK = """
[cache]
fresh = "1h"
stale_while_revalidate = "0s"
stale_if_error = "1h"
[upstreams.first]
url = "{first}"
retries = 0
[upstreams.second]
url = "{second}"
retries = 0
[[routes]]
name = "r"
models = ["*"]
upstream = "first"
fallback = ["second"]
"""


async def replies_as_fallback(call, writer, serial):
    told = chat(call.json, f"The fallback says {serial}.")
    if call.json.get("stream"):
        await stream(writer, chunks_of(told, usage=True))
    else:
        await whole(writer, json.dumps(told).encode())


async def test_an_outage_is_a_stale_answer_then_the_fallback_then_a_clear_error_and_then_all_is_well(
    upstream, tmp_path, clock
):
    """The whole story of one question, with its upstream's process gone and back."""
    upstream.on("m", replies_as_fallback)
    async with FakeUpstream() as first:
        settings = WITH_FALLBACK.format(first=first.url, second=upstream.url)
        async with running(settings, tmp_path, now_ms=clock, monotonic_ms=clock) as node:
            before = await node.chat("hello")
            await first.goes_down()
            clock.forward(s=1800)
            fresh = await node.chat("hello")
            stale = []
            for seconds in (1800, 1800, 1799):
                clock.forward(s=seconds)
                stale.append(await node.chat("hello"))
            asked_second_meanwhile = len(upstream.calls)
            clock.forward(s=1)
            fallback = [await node.chat("hello"), await node.chat("hello", stream=True)]
            await upstream.goes_down()
            clock.forward(s=1)
            error = await node.chat("hello")
            await first.comes_back()
            clock.forward(s=1)
            back = await node.chat("hello")
            hit = await node.chat("hello")
            counted = await node.stats()

    assert fresh.is_hit
    for answered in stale:
        assert answered.text == before.text
        assert answered.cache_status.endswith("; detail=stale-if-error")
    assert asked_second_meanwhile == 0
    assert {a.text for a in fallback} == {"The fallback says 1."}
    assert all("detail=fallback" in a.cache_status for a in fallback)
    assert error.status == 502
    assert error.json["error"]["code"] == "origin_unreachable"
    assert back.status == 200
    assert "; stored" in back.cache_status
    assert hit.is_hit
    assert hit.text == back.text
    assert counted["received"] == sum(counted["how"].values())


@pytest.mark.parametrize("has_stale", [False, True], ids=["nothing kept", "a stale answer kept"])
@pytest.mark.parametrize("has_fallback", [False, True], ids=["no fallback", "a fallback"])
async def test_a_dead_upstream_is_asked_once_a_second_for_a_question_and_its_return_is_seen_within_two(
    upstream, tmp_path, clock, has_stale, has_fallback
):
    settings = WITH_FALLBACK if has_fallback else WITH_FALLBACK.replace('fallback = ["second"]', "")
    async with FakeUpstream() as first:
        probed_at = []

        async def counts_probes(call, writer, serial):
            probed_at.append(clock())
            await failing(503)(call, writer, serial)

        async with running(
            settings.format(first=first.url, second=upstream.url), tmp_path, now_ms=clock, monotonic_ms=clock
        ) as node:
            if has_stale:
                await node.chat("hello")
                clock.forward(s=PAST_FRESH_S)
            first.on("m", counts_probes)
            began_ms = clock()
            for _ in range(100):
                await asyncio.gather(*(node.chat("hello", stream=n == 0) for n in range(3)))
                clock.forward(s=0.1)
            first.on("m", answer)
            back_ms = clock()
            while not (await node.chat("hello", {"cache-control": "only-if-cached"})).is_hit:
                await node.chat("hello")
                clock.forward(s=0.1)

    assert all(later - earlier >= 1000 for earlier, later in zip(probed_at, probed_at[1:], strict=False))
    assert 9 <= len(probed_at) <= (back_ms - began_ms) // 1000 + 1
    assert clock() - back_ms <= 2000


@pytest.mark.parametrize("seed", range(3))
async def test_no_stale_answer_is_ever_given_past_its_window(upstream, tmp_path, clock, seed):
    """Random questions, wishes, steps of the clock and outages: whatever is given is as young as it must be."""
    chance = random.Random(seed)
    fresh_s, behind_s, on_error_s = 60, chance.choice([0, 30, 90]), chance.choice([0, 45, 120])
    settings = (
        f'retries = 0\n[cache]\nfresh = "{fresh_s}s"\nstale_while_revalidate = "{behind_s}s"\n'
        f'stale_if_error = "{on_error_s}s"\n'
    )
    stale, stood_in = 0, 0
    async with at(upstream, tmp_path, clock, settings.removeprefix("retries = 0\n")) as node:
        is_up, failed_ms = True, 0
        for _ in range(1200):
            clock.forward(s=chance.choice([0, 0.3, 1, 5, 20, 100]) * chance.random())
            if chance.random() < 0.1:
                is_up = not is_up
                upstream.on("m", answer if is_up else failing(chance.choice([429, 500, 503])))
            failed_ms = failed_ms if is_up else clock()
            wish = chance.choice(
                ["", "", "", "max-age=50", "min-fresh=5", "max-stale=10", "only-if-cached", "no-cache"]
            )
            told = await node.chat(f"question {chance.randrange(4)}", {"cache-control": wish} if wish else {})
            await until(lambda: len(node.node.flights) == 0)
            if not told.is_hit:
                continue
            age_s, ttl_s = int(told.headers["age"]), int(re.search(r"ttl=(-?\d+)", told.cache_status)[1])
            assert ttl_s == fresh_s - age_s
            if ttl_s > 0:
                continue
            is_instead = "stale-if-error" in told.cache_status
            window_s = on_error_s if is_instead else behind_s
            stale, stood_in = stale + (not is_instead), stood_in + is_instead
            assert wish in ("", "max-stale=10", "only-if-cached")
            assert not is_instead or (clock() - failed_ms < 1000 and wish != "only-if-cached")
            assert age_s < fresh_s + window_s or (wish == "max-stale=10" and -ttl_s <= 10)
            assert wish != "max-stale=10" or -ttl_s <= 10
        counted = await node.stats()

    assert behind_s == 0 or stale > 10
    assert on_error_s <= behind_s or stood_in > 5
    assert counted["received"] == sum(counted["how"].values())
