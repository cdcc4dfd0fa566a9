"""Who gets in: Host, Origin, admin token, paths, methods (design §6, contract K8)."""

from __future__ import annotations

import asyncio

import pytest

from tests.asking import chat_body
from tests.running import in_front_of, running

OPEN = {"/-/health", "/-/ready"}


async def test_every_admin_path_but_health_and_ready_asks_for_the_token(upstream, tmp_path):
    from foretold.server.admin import Admin

    async with running(in_front_of(upstream.url), tmp_path) as node:
        admin: Admin = node.admin
        for door in admin.doors:
            for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": node.assembled.admin_token[:-1]}):
                answered = await node.send(door.method, door.path, b"{}" if door.method == "POST" else None, headers)
                assert (answered.status != 401) == (door.path in OPEN), door.path

    assert {door.path for door in admin.doors if door.is_open} == OPEN


async def test_the_admin_token_is_in_a_file_of_this_user_alone(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        stats = await node.send("GET", "/-/stats", headers=node.admin_headers)

    for name in ("admin-token", "secret"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    assert stats.status == 200
    assert stats.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:3673", "[::2]", "evil:80"]
)
async def test_a_foreign_host_is_refused_so_that_no_rebound_name_reaches_us(upstream, tmp_path, host):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        refused = await node.chat("hello", {"host": host})
        health = await node.send("GET", "/-/health", headers={"host": host})

    assert refused.status == health.status == 421
    assert upstream.calls == []


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:3673", "[::1]:80", "node.example:9"])
async def test_our_own_names_and_those_written_down_are_let_in(upstream, tmp_path, host):
    settings = in_front_of(upstream.url, '[server]\nhosts = ["node.example"]\n')
    async with running(settings, tmp_path) as node:
        answered = await node.chat("hello", {"host": host})

    assert answered.status == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:3000", ""])
async def test_a_foreign_web_page_is_refused_and_gets_no_cors_header(upstream, tmp_path, origin):
    settings = in_front_of(upstream.url, '[server]\nallowed_origins = ["https://app.example"]\n')
    async with running(settings, tmp_path) as node:
        refused = await node.chat("hello", {"origin": origin})
        preflight = await node.send(
            "OPTIONS", "/v1/chat/completions", headers={"origin": origin, "access-control-request-method": "POST"}
        )

    assert refused.status == preflight.status == 403
    assert "access-control-allow-origin" not in refused.headers
    assert upstream.calls == []


async def test_a_web_page_that_is_allowed_may_call_and_read_the_status(upstream, tmp_path):
    settings = in_front_of(upstream.url, '[server]\nallowed_origins = ["https://app.example"]\n')
    page = {"origin": "https://app.example"}
    async with running(settings, tmp_path) as node:
        wishes = {**page, "access-control-request-method": "POST", "access-control-request-headers": "foretold-ttl"}
        preflight = await node.send("OPTIONS", "/v1/chat/completions", headers=wishes)
        answers = [await node.chat("hello", page), await node.chat("hello", page)]

    assert preflight.status == 204
    assert preflight.headers["access-control-allow-headers"] == "foretold-ttl"
    for answer in answers:
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        assert "cache-status" in answer.headers["access-control-expose-headers"]


@pytest.mark.parametrize(
    "path",
    [
        "/chat/completions",
        "/v1/chat/completions",
        "/v1/v1/chat/completions",
        "//v1//chat/completions/",
        "/v1/chat/completions/",
    ],
)
async def test_the_common_ways_to_get_the_base_url_wrong_all_work(upstream, tmp_path, path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        first = await node.post(path, chat_body("hello"))
        again = await node.chat("hello")

    assert first.status == 200
    assert again.is_hit
    assert upstream.calls[0].target == "/v1/chat/completions"


@pytest.mark.parametrize(
    "path", ["/v1/chat/%2e%2e/x", "/v1/x/..;/y", "/v1/a%2fb", "/v1/%00", "/v1/%5c", "/v1/%ff", "/%2E/x"]
)
async def test_a_path_that_two_parsers_could_read_in_two_ways_is_refused(upstream, tmp_path, path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        status = await _status_of(node, path)

    assert status == 400
    assert upstream.calls == []


async def _status_of(node, path: str) -> int:
    """The status of a path sent as it is: client libraries mend odd ones."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(node.url.rpartition(":")[2]))
    writer.write(
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}".encode()
    )
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return int(answer.split(b" ")[1])


@pytest.mark.parametrize(
    "head",
    [
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\ncontent-length: 2\r\n",
        "POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 2\r\n",
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n",
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: gzip, chunked\r\n",
    ],
    ids=["two hosts", "no host", "two framings", "coded framing"],
)
async def test_a_request_that_could_be_read_in_two_ways_is_refused(upstream, tmp_path, head):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(node.url.rpartition(":")[2]))
        writer.write(head.encode() + b"connection: close\r\n\r\n{}")
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert upstream.calls == []


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "HEAD"])
async def test_a_wrong_method_is_told_the_right_one(upstream, tmp_path, method):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        refused = await node.send(method, "/v1/chat/completions")

    assert refused.status == 405
    assert upstream.calls == []


async def test_an_unknown_path_passes_as_it_came_and_says_so(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        answers = [await node.post("/v1/responses?a=1", {"input": "hello"}) for _ in range(2)]

    for answer in answers:
        assert answer.cache_status == "Foretold; fwd=bypass; detail=undeclared"
    assert [call.target for call in upstream.calls] == ["/v1/responses?a=1"] * 2


async def test_without_an_upstream_an_unknown_path_is_told_the_right_base_url(upstream, tmp_path):
    async with running(in_front_of(upstream.url).join(['undeclared = "off"\n', ""]), tmp_path) as node:
        refused = await node.post("/v1/chat/completions/chat/completions", {})

    assert refused.status == 404
    assert f"{node.url}/v1" in refused.json["error"]["message"]


async def test_an_unknown_model_is_told_the_nearest(upstream, tmp_path):
    route = '[[routes]]\nname = "r"\nmodels = ["gpt-mini", "gpt-large"]\nupstream = "fake"\n'
    async with running(in_front_of(upstream.url, route), tmp_path) as node:
        refused = await node.chat("hello", model="gtp-mini")
        listed = await node.send("GET", "/v1/models")
        one = await node.send("GET", "/v1/models/gpt-mini")

    assert refused.status == 404
    assert "gpt-mini" in refused.json["error"]["message"]
    assert refused.json["error"]["code"] == "model_not_found"
    assert [model["id"] for model in listed.json["data"]] == ["gpt-mini", "gpt-large"]
    assert one.json["id"] == "gpt-mini"


async def test_health_tells_nothing_but_that_it_lives(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        health = await node.send("GET", "/-/health")

    assert set(health.json) == {"status", "version"}


async def test_metrics_and_stats_add_up_to_what_was_received(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await node.chat("one")
        await node.chat("one")
        await node.chat("one", {"cache-control": "no-store"})
        await node.send("POST", "/v1/chat/completions", b"oops")
        await node.send("POST", "/v1/chat/completions", b"[]")
        stats = await node.stats()
        text = (await node.send("GET", "/-/metrics", headers=node.admin_headers)).body.decode()

    assert stats["received"] == 5 == sum(stats["how"].values())
    assert stats["how"] == {"hit": 1, "stale": 0, "collapsed": 0, "miss": 1, "pass": 1, "error": 2}
    for tier in stats["tiers"]:
        assert tier["lookups"] == tier["hits"] + tier["misses"] + tier["errors"] + tier["skipped"]
    assert "foretold_received_total 5.0" in text
    assert 'foretold_query_seconds_count{how="hit"} 1.0' in text
