"""Header fields of an upstream: every line of a name counts, every byte goes through, and CORS is the node's alone."""

from __future__ import annotations

import asyncio
import json
from email.utils import formatdate

import aiohttp
import pytest

from tests.clock import Clock
from tests.fakes.upstream import chat, text_for, whole
from tests.running import in_front_of, running

ROUTES = """
speaks = "json"
[[routes]]
name = "things"
kind = "get"
path = "/things/*"
upstream = "fake"
"""


def with_fields(*lines: bytes):
    """A good answer with these header lines, byte for byte."""

    async def reply(call, writer, serial):
        told = chat(call.json, text_for(call.json, serial)) if call.body else {"call": serial}
        more = "".join(line.decode("latin-1") + "\r\n" for line in lines)
        await whole(writer, json.dumps(told).encode(), more=more)

    return reply


async def fields_of(node, text: str, *, headers=()) -> list[tuple[bytes, bytes]]:
    """The header lines of a chat's answer, as they came."""
    asked = {"model": "m", "messages": [{"role": "user", "content": text}]}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{node.url}/v1/chat/completions", json=asked, headers=dict(headers)) as response,
    ):
        await response.read()
        return [(name.lower(), value) for name, value in response.raw_headers]


def values(fields: list[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    return [value for n, value in fields if n == name]


@pytest.mark.parametrize(
    "lines",
    [
        [b"cache-control: no-store", b"cache-control: max-age=60"],
        [b"cache-control: max-age=60", b"cache-control: no-store"],
        [b"vary: cookie", b"vary: accept-encoding"],
        [b"vary: accept-encoding", b"vary: cookie"],
        [b"Cache-Control: max-age=60", b"age: 60", b"age: 1"],
    ],
)
async def test_what_any_line_of_a_name_forbids_is_not_kept(upstream, tmp_path, lines):
    upstream.on("/things/1", with_fields(*lines))
    async with running(in_front_of(upstream.url.removesuffix("/v1"), ROUTES), tmp_path) as node:
        first = await node.send("GET", "/things/1")
        again = await node.send("GET", "/things/1")

    assert "stored" not in first.cache_status
    assert not again.is_hit


@pytest.mark.parametrize("their_clock_is_ahead_s", [3600, -3600])
async def test_expires_is_compared_with_the_upstreams_own_date(upstream, tmp_path, their_clock_is_ahead_s):
    clock = Clock()
    theirs = clock() // 1000 + their_clock_is_ahead_s
    dates = f"date: {formatdate(theirs, usegmt=True)}", f"expires: {formatdate(theirs + 60, usegmt=True)}"
    upstream.on("/things/1", with_fields(*(line.encode() for line in dates)))
    settings = in_front_of(upstream.url.removesuffix("/v1"), ROUTES)
    async with running(settings, tmp_path, now_ms=clock) as node:
        first = await node.send("GET", "/things/1")
        clock.forward(s=59)
        fresh = await node.send("GET", "/things/1")
        clock.forward(s=1)
        stale = await node.send("GET", "/things/1")

    assert "; ttl=1;" in fresh.cache_status
    assert fresh.body == first.body
    assert "; ttl=0;" in stale.cache_status


@pytest.mark.parametrize("name", [b"x-foo", b"content-language", b"content-type"])
@pytest.mark.parametrize("value", ["模型".encode(), "é".encode(), b"caf\xe9", b"\xff"], ids=["cjk", "é", "latin", "ff"])
async def test_every_byte_of_a_field_goes_through_and_keeps_no_answer_from_being_kept(upstream, tmp_path, name, value):
    if name == b"content-type":
        value = b'application/json; x="' + value + b'"'

    async def reply(call, writer, serial):
        body = json.dumps(chat(call.json, text_for(call.json, serial))).encode()
        kind = b"" if name == b"content-type" else b"content-type: application/json\r\n"
        writer.write(b"HTTP/1.1 200 OK\r\n%b%b: %b\r\n" % (kind, name, value))
        writer.write(b"content-length: %d\r\n\r\n%b" % (len(body), body))
        await writer.drain()

    upstream.on("m", reply)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        missed = await fields_of(node, "hello")
        hit = await fields_of(node, "hello")

    assert values(missed, name) == [value]
    assert b"; hit" in values(hit, b"cache-status")[0]
    assert values(hit, name) == ([] if name == b"x-foo" else [value])


async def test_a_callers_utf8_in_a_field_reaches_the_upstream_as_it_came(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await fields_of(node, "hello", headers=[("user-agent", "模型")])

    assert upstream.calls[0].header("user-agent").encode("latin-1").decode() == "模型"


async def test_every_line_of_the_upstreams_cache_status_stands_before_ours(upstream, tmp_path):
    upstream.on("m", with_fields(b"cache-status: A; hit", b"cache-status: B; fwd=miss"))
    async with running(in_front_of(upstream.url), tmp_path) as node:
        (told,) = values(await fields_of(node, "hello"), b"cache-status")

    assert told.startswith(b"A; hit, B; fwd=miss, Foretold; fwd=uri-miss; stored;")


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/undeclared"])
async def test_which_web_pages_may_read_is_told_by_the_node_alone(upstream, tmp_path, path):
    theirs = with_fields(
        b"access-control-allow-origin: *",
        b"access-control-allow-credentials: true",
        b"access-control-expose-headers: x-a",
    )
    upstream.on("m", theirs)
    settings = '[server]\nallowed_origins = ["https://app.example"]\n' + in_front_of(upstream.url)
    asked = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    async with running(settings, tmp_path) as node, aiohttp.ClientSession() as session:
        for headers, allowed in [({"origin": "https://app.example"}, ["https://app.example"]), ({}, [])]:
            async with session.post(f"{node.url}{path}", json=asked, headers=headers) as response:
                await response.read()
            assert response.headers.getall("access-control-allow-origin", []) == allowed
            assert "access-control-allow-credentials" not in response.headers
            assert len(response.headers.getall("access-control-expose-headers", [])) == len(allowed)


async def test_fields_that_the_connection_names_as_its_own_stay_with_it(upstream, tmp_path):
    upstream.on("m", with_fields(b"connection: keep-alive, X-Hop", b"x-hop: 1", b"x-end: 2"))
    async with running(in_front_of(upstream.url), tmp_path) as node:
        fields = await fields_of(node, "hello")

    assert values(fields, b"x-hop") == []
    assert values(fields, b"x-end") == [b"2"]


async def test_those_who_ride_along_are_told_the_date_of_their_own_answer_once(upstream, tmp_path):
    upstream.on("m", with_fields(b"date: Mon, 01 Jan 2001 00:00:00 GMT"))
    async with running(in_front_of(upstream.url), tmp_path) as node:
        answers = await asyncio.gather(*(fields_of(node, "hello") for _ in range(3)))

    for fields in answers:
        assert len(values(fields, b"date")) == 1
