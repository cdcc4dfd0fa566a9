"""A purge takes effect with the very next request, and touches nothing else (rule G1)."""

from __future__ import annotations

import asyncio
import fcntl
import json

import pytest

from tests.fakes.upstream import chat, text_for, whole
from tests.integration.test_tenants import KEYS, bearer
from tests.running import in_front_of, running
from tests.waiting import until


def key_of(answer) -> str:
    return answer.cache_status.partition('key="')[2].partition('"')[0]


async def test_one_record_is_purged_by_its_key(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        first = await node.chat("one")
        await node.chat("two")
        await node.node.keeping.flush()
        purged = await node.purge(key=key_of(first))
        one, two = await node.chat("one"), await node.chat("two")

    assert purged.json == {"purged": "key", "tag": None}
    assert not one.is_hit
    assert two.is_hit


async def test_a_model_is_purged_and_no_other(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await node.chat("hello", model="a")
        await node.chat("hello", model="b")
        await node.purge(model="a")
        a, b = await node.chat("hello", model="a"), await node.chat("hello", model="b")

    assert not a.is_hit
    assert b.is_hit


async def test_a_tag_is_purged_in_its_tenants_namespace_alone(upstream, tmp_path):
    async with running(in_front_of(upstream.url, KEYS), tmp_path) as node:
        for key in ("key-of-web", "key-of-mobile"):
            await node.chat("tagged", {**bearer(key), "foretold-tags": "news, sport"})
            await node.chat("plain", bearer(key))
        purged = await node.purge(tag="news", of_tenant="tenant:web")
        hits = {
            (key, text): (await node.chat(text, bearer(key))).is_hit
            for key in ("key-of-web", "key-of-mobile")
            for text in ("tagged", "plain")
        }

    assert purged.status == 200
    assert hits == {
        ("key-of-web", "tagged"): False,
        ("key-of-web", "plain"): True,
        ("key-of-mobile", "tagged"): True,
        ("key-of-mobile", "plain"): True,
    }


async def test_a_tenant_is_purged_with_all_that_is_below_it(upstream, tmp_path):
    async with running(in_front_of(upstream.url, KEYS), tmp_path) as node:
        for headers in ({}, {"foretold-namespace": "x"}):
            await node.chat("hello", {**bearer("key-of-web"), **headers})
        await node.chat("hello", bearer("key-of-mobile"))
        await node.purge(tenant="tenant:web")
        wide = await node.chat("hello", bearer("key-of-web"))
        narrow = await node.chat("hello", {**bearer("key-of-web"), "foretold-namespace": "x"})
        other = await node.chat("hello", bearer("key-of-mobile"))

    assert not wide.is_hit
    assert not narrow.is_hit
    assert other.is_hit


async def test_everything_is_purged_and_stays_so_after_a_restart(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await node.chat("hello")
        await node.purge(everything=True)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        after = await node.chat("hello")

    assert not after.is_hit


async def test_an_answer_whose_flight_began_before_the_purge_is_given_and_never_hit(upstream, tmp_path):
    gate = asyncio.Event()

    async def slow(call, writer, serial):
        await gate.wait()
        await whole(writer, json.dumps(chat(call.json, text_for(call.json, serial))).encode())

    upstream.on("m", slow)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        asking = asyncio.create_task(node.chat("hello"))
        await upstream.called(1)
        await node.purge(model="m")
        gate.set()
        first = await asking
        after = await node.chat("hello")

    assert first.status == 200
    assert not after.is_hit


@pytest.mark.parametrize(
    "purged", [{"model": "m"}, {"everything": True}, {"tenant": "local:"}, {"tag": "week"}], ids=lambda p: next(iter(p))
)
async def test_a_query_sent_after_a_purge_is_never_answered_by_a_flight_from_before(upstream, tmp_path, purged):
    gate = asyncio.Event()

    async def slow(call, writer, serial):
        await gate.wait()
        await whole(writer, json.dumps(chat(call.json, text_for(call.json, serial))).encode())

    upstream.on("m", slow)
    tagged = {"foretold-tags": "week"}
    async with running(in_front_of(upstream.url), tmp_path) as node:
        before = asyncio.create_task(node.chat("hello", tagged))
        await upstream.called(1)
        await node.purge(**purged)
        after = asyncio.create_task(node.chat("hello", tagged))
        await upstream.called(2)
        gate.set()
        first, second = await before, await after
        third = await node.chat("hello", tagged)

    assert "stored" not in first.cache_status
    assert "collapsed" not in second.cache_status
    assert "stored" in second.cache_status
    assert first.text.endswith("call 1.")
    assert second.text.endswith("call 2.")
    assert third.is_hit
    assert third.text == second.text


async def test_a_key_purged_in_mid_flight_is_not_kept(upstream, tmp_path):
    gate = asyncio.Event()

    async def slow(call, writer, serial):
        await gate.wait()
        await whole(writer, json.dumps(chat(call.json, text_for(call.json, serial))).encode())

    async with running(in_front_of(upstream.url), tmp_path) as node:
        key = key_of(await node.chat("hello"))
        upstream.on("m", slow)
        asking = asyncio.create_task(node.chat("hello", {"cache-control": "no-cache"}))
        await upstream.called(2)
        await node.purge(key=key)
        gate.set()
        await asking
        await until(lambda: len(node.node.flights) == 0)
        after = await node.chat("hello")

    assert not after.is_hit


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"model": "a", "tag": "b"},
        {"colour": "red"},
        {"key": "short"},
        {"tag": "Not A Tag"},
        {"model": 7},
        {"model": ""},
        {"model": True},
        {"key": None},
        {"tag": ["a"]},
        {"everything": False},
        {"everything": "no"},
        {"everything": 1},
        {"everything": True, "model": "m"},
        {"tag": "a", "of_tenant": True},
        {"tag": "a", "of_tenant": 5},
        {"tag": "a", "of_tenant": ""},
        {"tenant": "local:", "of_tenant": "local:"},
        {"everything": True, "of_tenant": "local:"},
        {"of_tenant": "local:"},
    ],
    ids=str,
)
async def test_a_purge_that_names_nothing_clearly_is_refused(upstream, tmp_path, asked):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await node.chat("hello")
        refused = await node.purge(**asked)
        after = await node.chat("hello")

    assert refused.status == 400
    assert refused.json["code"] == "bad_purge"
    assert after.is_hit


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"true", b'{"tag":"a","tag":"b"}', b'{"model":"\\ud800"}', b'{"model":NaN}', b"[" * 2000],
    ids=str,
)
async def test_a_purge_that_is_no_plain_object_is_refused(upstream, tmp_path, body):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        refused = await node.send("POST", "/-/cache/purge", body, node.admin_headers)

    assert refused.status == 400
    assert refused.json["code"] == "bad_purge"


@pytest.mark.parametrize("tenant", ["web", "tenant:", "Tenant:web", "", "local"])
async def test_a_tenant_is_written_as_the_contract_writes_it(upstream, tmp_path, tenant):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        refused = [await node.purge(tenant=tenant), await node.purge(tag="a", of_tenant=tenant or "x")]

    for answer in refused:
        assert answer.status == 400
        assert "tenant:NAME" in answer.json["detail"]


async def test_a_tenants_purge_reaches_what_it_asked_with_a_credential_beside_its_key(upstream, tmp_path):
    beside = {"cf-aig-authorization": "Bearer key-of-web", **bearer("their-own")}
    async with running(in_front_of(upstream.url, KEYS), tmp_path) as node:
        await node.chat("hello", beside)
        before = await node.chat("hello", beside)
        await node.purge(tenant="tenant:web")
        after = await node.chat("hello", beside)

    assert before.is_hit
    assert not after.is_hit


async def test_a_purge_that_waits_for_its_turn_holds_nobody_up_and_says_so_in_the_end(upstream, tmp_path, monkeypatch):
    monkeypatch.setattr("foretold.generations.PATIENCE_S", 0.3)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await node.chat("hello")
        with (tmp_path / "generations.lock").open("rb") as other_process:
            fcntl.flock(other_process, fcntl.LOCK_EX)
            purging = asyncio.create_task(node.purge(model="m"))
            hits = [await node.chat("hello") for _ in range(5)]
            was_done = purging.done()
            refused = await purging
        purged = await node.purge(model="m")
        after = await node.chat("hello")

    assert all(hit.is_hit for hit in hits)
    assert not was_done
    assert refused.status == 500
    assert refused.json["code"] == "store_failed"
    assert purged.status == 200
    assert not after.is_hit
