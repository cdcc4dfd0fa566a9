"""Errors of the caller's own making, answers that can't be kept, and routes that share no flight (rules P2, L1)."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from tests.clock import Clock
from tests.fakes.upstream import FakeUpstream, answer, chat, text_for, whole
from tests.running import in_front_of, running
from tests.waiting import until

ERROR = {"error": {"message": "no such thing", "type": "invalid_request_error", "param": None, "code": None}}
ONLY = {"cache-control": "only-if-cached"}


@pytest.fixture
def clock() -> Clock:
    return Clock()


def at(upstream, tmp_path, clock, settings="", **more):
    return running(
        in_front_of(upstream.url, f"retries = 0\n{settings}"), tmp_path, now_ms=clock, monotonic_ms=clock, **more
    )


def says(value, *, status, kind="application/json", more=""):
    async def reply(call, writer, serial):
        await whole(writer, json.dumps(value).encode(), status=status, kind=kind, more=more)

    return reply


def held_back(gate: asyncio.Event, text: str | None = None):
    async def reply(call, writer, serial):
        await gate.wait()
        await whole(writer, json.dumps(chat(call.json, text_for(call.json, serial) if text is None else text)).encode())

    return reply


@pytest.mark.parametrize("status", [400, 404, 413, 422])
async def test_an_error_of_the_callers_own_making_is_kept_for_ten_seconds(upstream, tmp_path, clock, status):
    upstream.on("m", says(ERROR, status=status, more="x-request-id: mine\r\n"))
    async with at(upstream, tmp_path, clock) as node:
        first = await node.chat("hello")
        clock.forward(s=9.999)
        again = [await node.chat("hello"), await node.chat("hello", stream=True), await node.chat("hello", ONLY)]
        counted = await node.stats()
        clock.forward(s=0.001)
        after = await node.chat("hello")

    assert "stored" not in first.cache_status
    for told in again:
        assert told.status == status
        assert told.body == first.body
        assert re.fullmatch(r'Foretold; hit; ttl=1; key="\w{64}"; detail=negative', told.cache_status)
        assert told.headers["age"] == "9"
        assert told.headers["content-type"] == "application/json"
        assert told.headers["cache-control"] == "no-store"
        assert "etag" not in told.headers
        assert "x-request-id" not in told.headers
    assert not after.is_hit
    assert len(upstream.calls) == 2
    assert counted["how"] | {"miss": 1, "hit": 3} == counted["how"]
    assert counted["stored"] == 0


@pytest.mark.parametrize("status", [401, 402, 403, 405, 408, 409, 410, 418, 425, 431, 451])
async def test_no_other_error_is_kept(upstream, tmp_path, clock, status):
    upstream.on("m", says(ERROR, status=status))
    async with at(upstream, tmp_path, clock) as node:
        told = [await node.chat("hello") for _ in range(3)]

    assert [a.status for a in told] == [status] * 3
    assert len(upstream.calls) == 3


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({"detail": "no"}, "application/json"),
        ({"error": None}, "application/json"),
        ({"error": 5}, "application/json"),
        (["error"], "application/json"),
        (ERROR, "text/html"),
    ],
)
async def test_an_error_that_cannot_be_read_as_one_is_not_kept(upstream, tmp_path, clock, value, kind):
    upstream.on("m", says(value, status=404, kind=kind))
    async with at(upstream, tmp_path, clock) as node:
        await node.chat("hello")
        await node.chat("hello")

    assert len(upstream.calls) == 2


async def test_an_error_whose_end_is_not_proved_is_not_kept(upstream, tmp_path, clock):
    async def until_it_closes(call, writer, serial):
        writer.write(b"HTTP/1.1 404 X\r\ncontent-type: application/json\r\n\r\n" + json.dumps(ERROR).encode())
        writer.close()

    upstream.on("m", until_it_closes)
    async with at(upstream, tmp_path, clock) as node:
        await node.chat("hello")
        await node.chat("hello")

    assert len(upstream.calls) == 2


async def test_an_error_is_never_written_to_disk(upstream, tmp_path, clock):
    upstream.on("m", says(ERROR, status=404))
    async with at(upstream, tmp_path, clock) as node:
        await node.chat("hello")
        await node.node.keeping.flush()
        tiers = (await node.stats())["tiers"]
    async with at(upstream, tmp_path, clock) as node:
        await node.chat("hello")

    assert [tier["writes"] for tier in tiers if tier["name"] == "disk"] == [0]
    assert len(upstream.calls) == 2


@pytest.mark.parametrize("purge", [{"everything": True}, {"model": "m"}, {"tag": "t"}, {"key": None}], ids=str)
async def test_an_error_that_is_kept_is_purged_like_an_answer(upstream, tmp_path, clock, purge):
    upstream.on("m", says(ERROR, status=404))
    async with at(upstream, tmp_path, clock) as node:
        await node.chat("hello", {"foretold-tags": "t"})
        kept = await node.chat("hello")
        if "key" in purge:
            purge = {"key": re.search(r'key="(\w+)"', kept.cache_status)[1]}
        await node.purge(**purge)
        await node.chat("hello")

    assert kept.is_hit
    assert len(upstream.calls) == 2


@pytest.mark.parametrize("wide", [False, True], ids=["its key", "everything"])
async def test_an_error_that_was_purged_while_it_came_is_not_kept(upstream, tmp_path, clock, wide):
    gate = asyncio.Event()

    async def late(call, writer, serial):
        await gate.wait()
        await whole(writer, json.dumps(ERROR).encode(), status=404)

    upstream.on("m", late)
    async with at(upstream, tmp_path, clock) as node:
        asking = asyncio.create_task(node.chat("hello"))
        await upstream.called(1)
        (flight,) = node.node.flights._all
        await node.purge(**({"everything": True} if wide else {"key": flight.key}))
        gate.set()
        told = await asking
        again = await node.chat("hello")

    assert told.status == again.status == 404
    assert not again.is_hit


@pytest.mark.parametrize(
    ("first", "second", "calls"),
    [
        ({"cache-control": "no-store"}, {}, 2),
        ({}, {"cache-control": "no-store"}, 2),
        ({}, {"cache-control": "no-cache"}, 2),
        ({}, {"cache-control": "max-age=3"}, 2),
        ({}, {"cache-control": "min-fresh=7"}, 2),
        ({}, {"cache-control": "max-age=5, min-fresh=6"}, 1),
        ({"foretold-ttl": "4"}, {}, 2),
        ({"foretold-ttl": "0"}, {}, 2),
        ({}, {"foretold-namespace": "a"}, 2),
        ({"authorization": "Bearer one"}, {"authorization": "Bearer other"}, 2),
    ],
    ids=str,
)
async def test_an_error_that_is_kept_obeys_controls_and_tenants(upstream, tmp_path, clock, first, second, calls):
    upstream.on("m", says(ERROR, status=404))
    async with at(upstream, tmp_path, clock) as node:
        await node.chat("hello", first)
        clock.forward(s=4)
        await node.chat("hello", second)

    assert len(upstream.calls) == calls


@pytest.mark.parametrize("age_s", [0, 4000], ids=["fresh", "stale"])
async def test_an_error_never_takes_the_place_of_an_answer_that_is_still_good(upstream, tmp_path, clock, age_s):
    settings = '[cache]\nfresh = "1h"\nstale_while_revalidate = "1h"\n[[tiers]]\nstore = "memory"\nlimit = "16 MiB"\n'
    async with at(upstream, tmp_path, clock, settings) as node:
        first = await node.chat("hello")
        clock.forward(s=age_s)
        upstream.on("m", says(ERROR, status=404))
        told = await node.chat("hello", {"cache-control": "no-cache"})
        kept = await node.chat("hello")

    assert told.status == 404
    assert kept.text == first.text


async def test_an_error_of_a_declared_route_is_kept_too(upstream, tmp_path, clock):
    upstream.on("/items/1", says({"error": "there is no such item"}, status=404))
    settings = '[[routes]]\nname = "items"\nkind = "get"\npath = "/items/*"\nupstream = "fake"\n'
    async with running(
        in_front_of(upstream.url.removesuffix("/v1"), settings), tmp_path, now_ms=clock, monotonic_ms=clock
    ) as node:
        first = await node.send("GET", "/items/1")
        again = await node.send("GET", "/items/1", headers={"if-none-match": "*"})

    assert (first.status, again.status) == (404, 404)
    assert again.cache_status.endswith("; detail=negative")
    assert len(upstream.calls) == 1


async def test_after_an_answer_that_cannot_be_kept_callers_fly_alone_for_five_seconds(upstream, tmp_path, clock):
    gate = asyncio.Event()
    gate.set()
    upstream.on("m", held_back(gate, text=""))
    async with at(upstream, tmp_path, clock) as node:
        await node.chat("hello")
        gate.clear()
        clock.forward(s=4.9)
        alone = [asyncio.create_task(node.chat("hello")) for _ in range(5)]
        await upstream.called(6)
        gate.set()
        answers = await asyncio.gather(*alone)
        gate.clear()
        clock.forward(s=5)
        together = [asyncio.create_task(node.chat("hello")) for _ in range(5)]
        await until(lambda: node.node.counters.received == 11)
        await upstream.called(7)
        gate.set()
        answers += await asyncio.gather(*together)
        counted = await node.stats()

    assert {a.status for a in answers} == {200}
    assert sum("collapsed" in a.cache_status for a in answers[:5]) == 0
    assert sum("collapsed" in a.cache_status for a in answers[5:]) == 4
    assert len(upstream.calls) == 7
    assert counted["received"] == sum(counted["how"].values())


async def test_an_answer_that_can_be_kept_again_is_shared_again(upstream, tmp_path, clock):
    upstream.on("m", says(chat({"model": "m"}, ""), status=200))
    async with at(upstream, tmp_path, clock) as node:
        await node.chat("hello")
        upstream.on("m", answer)
        kept = await node.chat("hello")
        hit = await node.chat("hello")

    assert "; stored" in kept.cache_status
    assert hit.is_hit


APART = '[[routes]]\nname = "r"\nmodels = ["*"]\nupstream = "fake"\ncollapse = {}\n'


async def test_on_a_route_that_does_not_collapse_every_query_flies_alone(upstream, tmp_path, clock):
    gate = asyncio.Event()
    upstream.on("m", held_back(gate))
    async with at(upstream, tmp_path, clock, APART.format("false")) as node:
        asking = [asyncio.create_task(node.chat("hello", stream=n % 2 == 0)) for n in range(6)]
        await upstream.called(6)
        gate.set()
        answers = await asyncio.gather(*asking)
        hit = await node.chat("hello")
        counted = await node.stats()

    assert len({a.text for a in answers}) == 6
    assert not any("collapsed" in a.cache_status for a in answers)
    assert hit.is_hit
    assert counted["how"] | {"miss": 6, "hit": 1, "collapsed": 0} == counted["how"]


async def test_on_a_route_that_does_not_collapse_no_error_is_told_again(upstream, tmp_path, clock):
    upstream.on("m", says(ERROR, status=503))
    async with at(upstream, tmp_path, clock, APART.format("false")) as node:
        told = [await node.chat("hello") for _ in range(3)]

    assert len(upstream.calls) == 3
    assert not any("backoff" in a.cache_status for a in told)


async def test_on_a_route_that_does_not_collapse_a_stale_answer_is_still_refreshed_once(upstream, tmp_path, clock):
    gate = asyncio.Event()
    async with at(upstream, tmp_path, clock, '[cache]\nfresh = "1h"\n' + APART.format("false")) as node:
        first = await node.chat("hello")
        clock.forward(s=4000)
        upstream.on("m", held_back(gate))
        stale = [await node.chat("hello") for _ in range(5)]
        await upstream.called(2)
        gate.set()
        await until(lambda: node.node.flying.refreshing.refreshed == 1)

    assert {a.text for a in stale} == {first.text}
    assert len(upstream.calls) == 2


async def test_whether_a_route_collapses_changes_with_the_next_request(upstream, tmp_path, clock):
    gate = asyncio.Event()
    upstream.on("m", held_back(gate))
    async with at(upstream, tmp_path, clock, APART.format("true")) as node:
        reloaded = await node.reload(in_front_of(upstream.url, "retries = 0\n" + APART.format("false")))
        asking = [asyncio.create_task(node.chat("hello")) for _ in range(3)]
        await upstream.called(3)
        gate.set()
        await asyncio.gather(*asking)

    assert reloaded.json == {"changed": ["routes"], "waiting": []}


async def test_a_fallbacks_refusal_is_not_kept_as_the_first_origins(upstream, tmp_path, clock):
    upstream.on("m", says(ERROR, status=404))
    async with FakeUpstream() as first:
        first.on("m", says(ERROR, status=500))
        settings = f"""
        [upstreams.first]
        url = "{first.url}"
        retries = 0
        [upstreams.second]
        url = "{upstream.url}"
        [[routes]]
        name = "r"
        models = ["*"]
        upstream = "first"
        fallback = ["second"]
        """
        async with running(settings, tmp_path, now_ms=clock, monotonic_ms=clock) as node:
            told = await node.chat("hello")
            first.on("m", answer)
            clock.forward(s=1)
            back = await node.chat("hello")

    assert told.status == 500
    assert back.status == 200
