"""Settings that were changed are in force with the very next request, whole or not at all."""

from __future__ import annotations

import asyncio
import dataclasses
import json

import pytest

from foretold.config.settings import Cache, Config, Server
from foretold.contract.namespace import api_key_hash
from foretold.live import _LIVE
from tests.fakes.upstream import FakeUpstream, chat, text_for, whole
from tests.integration.test_tenants import KEYS, bearer
from tests.running import in_front_of, running
from tests.waiting import until

WITHOUT_WEB = f"""
[[api_keys]]
tenant = "mobile"
sha256 = "{api_key_hash("key-of-mobile")}"
"""


async def test_a_revoked_api_key_is_refused_on_the_very_next_request(upstream, tmp_path):
    async with running(in_front_of(upstream.url, KEYS), tmp_path) as node:
        await node.chat("hello", bearer("key-of-web"))
        hit = await node.chat("hello", bearer("key-of-web"))
        reloaded = await node.reload(in_front_of(upstream.url, WITHOUT_WEB))
        revoked = await node.chat("hello", bearer("key-of-web"))
        other = await node.chat("hello", bearer("key-of-mobile"))

    assert hit.is_hit
    assert reloaded.json == {"changed": ["api_keys"], "waiting": []}
    assert revoked.status == 401
    assert other.status == 200
    assert len(upstream.calls) == 2


async def test_a_changed_catalogue_answers_the_very_next_request(upstream, tmp_path):
    routes = '[[routes]]\nname = "r"\nmodels = ["{}"]\nupstream = "fake"\nrevision = "{}"\n'
    async with running(in_front_of(upstream.url, routes.format("m", "1")), tmp_path) as node:
        await node.chat("hello")
        same = await node.chat("hello")
        await node.reload(in_front_of(upstream.url, routes.format("m", "2")))
        other_revision = await node.chat("hello")
        await node.reload(in_front_of(upstream.url, routes.format("other", "2")))
        gone = await node.chat("hello")
        await node.reload(in_front_of(upstream.url, routes.format("m", "1")))
        back = await node.chat("hello")

    assert [a.is_hit for a in (same, other_revision, gone, back)] == [True, False, False, True]
    assert gone.status == 404


async def test_a_changed_rule_is_obeyed_on_the_very_next_request(upstream, tmp_path):
    route = '[[routes]]\nname = "r"\nmodels = ["*"]\nupstream = "fake"\nstore = {}\n'
    async with running(in_front_of(upstream.url, route.format("true")), tmp_path) as node:
        await node.chat("hello")
        kept = await node.chat("hello")
        await node.reload(in_front_of(upstream.url, route.format("false")))
        not_kept = await node.chat("hello")

    assert kept.is_hit
    assert not_kept.cache_status == "Foretold; fwd=bypass; detail=route-stores-nothing"


async def test_a_changed_door_is_shut_on_the_very_next_request(upstream, tmp_path):
    open_to = '[server]\nallowed_origins = ["https://app.example"]\nhosts = ["node.example"]\n'
    page, name = {"origin": "https://app.example"}, {"host": "node.example"}
    async with running(in_front_of(upstream.url, open_to), tmp_path) as node:
        before = [await node.chat("hello", headers) for headers in (page, page, name, name)]
        await node.reload(in_front_of(upstream.url))
        after = [await node.chat("hello", headers) for headers in (page, name)]

    assert [a.status for a in before] == [200] * 4
    assert [a.status for a in after] == [403, 421]


async def test_a_purge_is_seen_by_the_very_next_request(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await node.chat("hello")
        hits = [await node.chat("hello") for _ in range(3)]
        await node.purge(everything=True)
        purged = await node.chat("hello")

    assert all(a.is_hit for a in hits)
    assert not purged.is_hit


async def test_settings_that_cannot_be_read_change_nothing(upstream, tmp_path):
    async with running(in_front_of(upstream.url, KEYS), tmp_path) as node:
        await node.chat("hello", bearer("key-of-web"))
        refused = await node.reload(in_front_of(upstream.url, "[server]\nprot = 1\n"))
        still = await node.chat("hello", bearer("key-of-web"))

    assert refused.status == 422
    assert "prot" in refused.json["detail"]
    assert still.is_hit


async def test_settings_whose_models_do_not_run_change_nothing_now_or_later(upstream, tmp_path):
    with_model = '[models.x]\n[[routes]]\nname = "x"\nmodels = ["*"]\nmodel = "x"\n'
    async with FakeUpstream() as other, running(in_front_of(upstream.url), tmp_path) as node:
        refused = await node.reload(in_front_of(other.url, with_model))
        restored = await node.reload(in_front_of(upstream.url))
        await node.chat("hello")
        calls_of_other = len(other.calls)

    assert refused.status == 422
    assert "'x'" in refused.json["detail"]
    assert restored.json == {"changed": [], "waiting": []}
    assert calls_of_other == 0
    assert len(upstream.calls) == 1


async def test_a_node_left_without_upstreams_says_that_its_model_waits_for_a_restart(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        reloaded = await node.reload("")

    assert reloaded.json == {"changed": ["upstreams"], "waiting": ["models"]}


@pytest.mark.parametrize("before", ["", KEYS])
async def test_a_query_whose_body_comes_after_the_change_meets_the_new_settings(upstream, tmp_path, before):
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x" * 100_000}]}).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer key-of-web\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    async with running(in_front_of(upstream.url, before), tmp_path) as node:
        port = int(node.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head.encode() + body[:1000])
        await until(lambda: node.node.counters.received == 1)
        await node.reload(in_front_of(upstream.url, WITHOUT_WEB))
        writer.write(body[1000:])
        answered = await reader.readuntil(b"\r\n")
        writer.close()

    assert answered.startswith(b"HTTP/1.1 401 ")
    assert upstream.calls == []


async def test_what_waits_for_a_restart_is_named(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        reloaded = await node.reload(
            in_front_of(upstream.url, '[server]\nbody_limit = "1 MiB"\n[cache]\nfresh = "1h"\n')
        )
        again = await node.reload(in_front_of(upstream.url, '[server]\nbody_limit = "1 MiB"\n[cache]\nfresh = "1h"\n'))

    assert reloaded.json == {"changed": ["cache.fresh"], "waiting": ["server.body_limit"]}
    assert again.json == {"changed": [], "waiting": ["server.body_limit"]}


async def test_an_answer_on_its_way_ends_by_the_settings_it_began_with(upstream, tmp_path):
    goes_on = asyncio.Event()

    async def slow(call, writer, number):
        await goes_on.wait()
        await whole(writer, json.dumps(chat(call.json, text_for(call.json, number))).encode())

    upstream.on("m", slow)
    async with FakeUpstream() as other, running(in_front_of(upstream.url), tmp_path) as node:
        running_one = asyncio.create_task(node.chat("hello"))
        await upstream.called(1)
        await node.reload(in_front_of(other.url))
        elsewhere = await node.chat("bye")
        goes_on.set()
        ended = await running_one

    assert ended.status == elsewhere.status == 200
    assert len(upstream.calls) == len(other.calls) == 1


async def test_an_upstream_that_stays_keeps_its_connections(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        before = node.live.upstreams["fake"]
        await node.reload(in_front_of(upstream.url, '[cache]\nfresh = "1h"\n'))
        same = node.live.upstreams["fake"]
        await node.reload(in_front_of(upstream.url, "connect_timeout = '1s'"))
        other = node.live.upstreams["fake"]

    assert same is before
    assert other is not before


@pytest.mark.parametrize(("table", "kind"), [("", Config), ("server", Server), ("cache", Cache)])
def test_every_setting_said_to_change_at_once_is_a_setting(table, kind):
    assert {f.name for f in dataclasses.fields(kind)} >= _LIVE[table]
