"""An answer in another shape than it came in is all of the answer, or an error (rules P1, P3, P4, L1)."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.fakes.upstream import begin_stream, chat, chunks_of, send_chunk, stream, whole
from tests.running import in_front_of, running
from tests.waiting import until

USAGE = {"include_usage": True}
DONE = b"data: [DONE]\n\n"
ERROR = {"message": "overloaded", "type": "server_error"}


def words(call, *, usage: bool = False) -> list[bytes]:
    return chunks_of(chat(call.json, "some words that come"), usage=usage)


async def ends_without_done(call, writer):
    for event in words(call)[:4]:
        await send_chunk(writer, event)
    writer.write(b"0\r\n\r\n")


async def ends_with_its_connection(call, writer):
    for event in words(call)[:4]:
        await send_chunk(writer, event)
    writer.close()


async def tells_an_error(call, writer):
    for event in [*words(call)[:4], f"data: {json.dumps({'error': ERROR})}\n\n".encode(), DONE]:
        await send_chunk(writer, event)
    writer.write(b"0\r\n\r\n")


HALVES = [ends_without_done, ends_with_its_connection, tells_an_error]


def halfway(end, gate: asyncio.Event):
    async def reply(call, writer, serial):
        await gate.wait()
        await begin_stream(writer)
        await end(call, writer)

    return reply


@pytest.mark.parametrize("end", HALVES)
async def test_a_follower_who_wants_it_whole_never_gets_half_of_a_stream(upstream, tmp_path, end):
    gate = asyncio.Event()
    upstream.on("m", halfway(end, gate))
    async with running(in_front_of(upstream.url), tmp_path) as node:
        leader = asyncio.create_task(node.chat("hello", stream=True))
        await upstream.called(1)
        follower = asyncio.create_task(node.chat("hello"))
        await until(lambda: len(next(iter(node.node.flights._all)).riders) == 2)
        gate.set()
        streamed, told = await leader, await follower

    assert streamed.status == 200
    assert told.status == 502
    assert "choices" not in told.json


async def test_what_an_upstream_says_behind_done_is_no_part_of_a_whole_answer(upstream, tmp_path):
    async def reply(call, writer, serial):
        events = chunks_of(chat(call.json, "all of it"), usage=True)
        await stream(writer, [*events, events[1], events[-1]])

    upstream.on("m", reply)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        answered = await node.chat("hello")

    assert answered.text == "all of it"


@pytest.mark.parametrize("end", HALVES)
@pytest.mark.parametrize("headers", [{}, {"cache-control": "no-store"}], ids=["kept", "passed"])
async def test_whoever_wants_it_whole_gets_no_half_where_the_upstream_only_streams(upstream, tmp_path, end, headers):
    gate = asyncio.Event()
    gate.set()
    upstream.on("m", halfway(end, gate))
    async with running(in_front_of(upstream.url), tmp_path) as node:
        told = await node.chat("hello", headers)

    assert told.status == 502
    assert "choices" not in told.json
    if end is tells_an_error:
        assert told.json == {"error": ERROR}


async def test_an_error_told_with_200_goes_as_it_came_to_those_who_asked_for_a_stream(upstream, tmp_path):
    said = json.dumps({"error": {"message": "quota gone", "code": "quota"}}).encode()

    async def reply(call, writer, serial):
        await whole(writer, said)

    upstream.on("m", reply)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        told = await node.chat("hello", stream=True)

    assert told.status == 200
    assert told.body == said
    assert told.headers["content-type"] == "application/json"


async def test_an_answer_without_choices_loses_nothing_as_a_stream(upstream, tmp_path):
    async def reply(call, writer, serial):
        await whole(writer, json.dumps({**chat(call.json, "x"), "choices": [], "prompt_filter_results": [1]}).encode())

    upstream.on("m", reply)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        told = await node.chat("hello", stream=True)

    event, done, _ = told.body.split(b"\n\n")
    assert json.loads(event[6:])["prompt_filter_results"] == [1]
    assert json.loads(event[6:])["id"] == "chatcmpl-fake"
    assert done == b"data: [DONE]"


@pytest.mark.parametrize(
    "members", [{"seed": 2**60}, {"metadata": "x" * (5 * 2**20)}, {"store": True}], ids=["number", "size", "state"]
)
async def test_usage_is_told_to_whoever_asked_for_it_on_a_pass_too(upstream, tmp_path, members):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        told = await node.chat("hello", stream=True, stream_options=USAGE, **members)

    assert "fwd=bypass" in told.cache_status
    assert b'"total_tokens": 12' in told.body


def telling_usage(sent: list[bytes]):
    """An upstream that tells usage, and more beside it, whether it was asked or not."""

    async def reply(call, writer, serial):
        events = words(call)
        events.insert(-1, b'data: {"choices":[],"usage":{"total_tokens":3},"citations":["a"]}\n\n')
        sent[:] = events
        await stream(writer, events)

    return reply


NOT_ASKING = 'routes = [{ name = "r", models = ["*"], upstream = "fake", ask_usage = false }]\n'
DECLARED = 'routes = [{ name = "j", kind = "json", path = "/json/*", upstream = "fake" }]\n'


@pytest.mark.parametrize(
    ("first", "path", "headers"),
    [
        ("", "/v1/chat/completions", {"cache-control": "no-store"}),
        (NOT_ASKING, "/v1/chat/completions", {}),
        (DECLARED, "/json/x", {}),
    ],
    ids=["pass", "route", "json"],
)
async def test_where_the_node_asked_for_no_usage_a_stream_goes_through_untouched(
    upstream, tmp_path, first, path, headers
):
    sent: list[bytes] = []
    upstream.on("m", telling_usage(sent))
    asked = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "stream": True}
    async with running(first + in_front_of(upstream.url), tmp_path) as node:
        told = await node.post(path, asked, headers)

    assert told.status == 200
    assert told.body == b"".join(sent)


async def test_followers_get_the_headers_of_the_answer_and_none_that_was_for_one_caller(upstream, tmp_path):
    gate = asyncio.Event()
    of_the_answer = {"content-encoding": "br", "retry-after": "20", "location": "/y", "www-authenticate": "Bearer"}
    for_one = {
        "set-cookie": "a=b",
        "x-request-id": "req_1",
        "x-ratelimit-remaining-tokens": "9",
        "anthropic-ratelimit-requests-limit": "9",
        "openai-organization": "acme",
        "cf-ray": "1",
    }

    async def reply(call, writer, serial):
        await gate.wait()
        more = "".join(f"{name}: {value}\r\n" for name, value in {**of_the_answer, **for_one}.items())
        await whole(writer, b"\x0b\x02\x80hello\x03", status=429, more=more)

    upstream.on("m", reply)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        leader = asyncio.create_task(node.chat("hello"))
        await upstream.called(1)
        follower = asyncio.create_task(node.chat("hello"))
        await until(lambda: len(next(iter(node.node.flights._all)).riders) == 2)
        gate.set()
        first, second = await leader, await follower

    assert "collapsed" in second.cache_status
    assert second.status == first.status == 429
    assert second.body == first.body
    assert {name: second.headers.get(name) for name in of_the_answer} == of_the_answer
    assert [name for name in for_one if name in second.headers] == []
    assert first.headers["x-request-id"] == "req_1"


async def test_an_event_too_long_to_wait_for_goes_through_as_it_comes(upstream, tmp_path):
    piece, pieces = b"data: " + b"x" * 2**20 + b"\n", 40

    async def reply(call, writer, serial):
        await begin_stream(writer)
        for _ in range(pieces):
            await send_chunk(writer, piece)
        await send_chunk(writer, b"\n" + DONE)
        writer.write(b"0\r\n\r\n")

    upstream.on("m", reply)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        told = await node.chat("hello", stream=True)
        counted = await node.stats()

    assert told.body == piece * pieces + b"\n" + DONE
    assert counted["stored"] == 0
