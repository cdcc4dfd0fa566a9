"""Streams: first bytes early, cancelled early, joined live, replayed whole (rules P3, P4, L1)."""

from __future__ import annotations

import asyncio
import json
import socket

import aiohttp
import pytest

from foretold.flights.table import Flights
from tests.asking import chat_body
from tests.fakes.upstream import begin_stream, chat, chunks_of, send_chunk, stream, text_for, whole
from tests.running import in_front_of, running
from tests.waiting import until

USAGE = {"include_usage": True}


def stepwise(gate: asyncio.Event, *, first: int = 2):
    """A stream that waits for the gate after its first events."""

    async def reply(call, writer, serial):
        async def between(i):
            if i == first:
                await gate.wait()

        events = chunks_of(chat(call.json, text_for(call.json, serial)), usage=True)
        await stream(writer, events, between=between)

    return reply


async def test_the_first_event_of_a_miss_arrives_while_the_upstream_still_streams(upstream, tmp_path):
    gate = asyncio.Event()
    upstream.on("m", stepwise(gate))
    async with running(in_front_of(upstream.url), tmp_path) as node, aiohttp.ClientSession() as session:
        async with session.post(f"{node.url}/v1/chat/completions", json=chat_body("hello", stream=True)) as response:
            first = await asyncio.wait_for(response.content.readuntil(b"\n\n"), 5)
            was_running = not upstream.calls[0].ended.is_set()
            gate.set()
            rest = await response.content.read()

    assert was_running
    assert b'"role": "assistant"' in first
    assert rest.endswith(b"data: [DONE]\n\n")


async def test_a_caller_who_comes_in_mid_stream_gets_all_of_it_and_the_upstream_is_called_once(upstream, tmp_path):
    gate = asyncio.Event()
    upstream.on("m", stepwise(gate))
    async with running(in_front_of(upstream.url), tmp_path) as node:
        leader = asyncio.create_task(node.chat("hello", stream=True))
        await upstream.called(1)
        streaming = asyncio.create_task(node.chat("hello", stream=True))
        asking_whole = asyncio.create_task(node.chat("hello"))
        await until(lambda: len(next(iter(node.node.flights._all)).riders) == 3)
        gate.set()
        answers = [await leader, await streaming, await asking_whole]
        counted = (await node.stats())["how"]

    assert len(upstream.calls) == 1
    assert len({a.text for a in answers}) == 1
    assert "collapsed" in answers[1].cache_status
    assert "collapsed" in answers[2].cache_status
    assert answers[2].json["usage"]["total_tokens"] == 12
    assert counted["miss"] == 1
    assert counted["collapsed"] == 2


async def test_the_flight_outlives_the_caller_who_started_it(upstream, tmp_path):
    gate = asyncio.Event()
    upstream.on("m", stepwise(gate))
    async with running(in_front_of(upstream.url), tmp_path) as node:
        leader = asyncio.create_task(node.chat("hello", stream=True))
        await upstream.called(1)
        follower = asyncio.create_task(node.chat("hello", stream=True))
        await until(lambda: len(next(iter(node.node.flights._all)).riders) == 2)
        leader.cancel()
        await until(lambda: len(next(iter(node.node.flights._all)).riders) == 1)
        gate.set()
        answered = await follower

    assert answered.body.endswith(b"data: [DONE]\n\n")
    assert len(upstream.calls) == 1


async def test_when_the_last_caller_leaves_before_the_first_token_the_upstream_is_stopped(upstream, tmp_path):
    async def thinks(call, writer, serial):
        await call.cut.wait()

    upstream.on("m", thinks)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        for members in ({}, {"stream": True}):
            asking = asyncio.create_task(node.chat("hello", **members))
            await upstream.called(len(upstream.calls) + 1)
            asking.cancel()
            await asyncio.wait_for(upstream.calls[-1].cut.wait(), 5)
        await until(lambda: node.node.counters.ended["gone"] == 2)

    assert len(upstream.calls) == 2


async def test_when_the_last_caller_leaves_in_mid_stream_the_upstream_is_stopped_and_nothing_kept(upstream, tmp_path):
    async def endless(call, writer, serial):
        await begin_stream(writer)
        for event in chunks_of(chat(call.json, "some words"), usage=False)[:2]:
            await send_chunk(writer, event)
        await call.cut.wait()

    upstream.on("m", endless)
    async with running(in_front_of(upstream.url), tmp_path) as node, aiohttp.ClientSession() as session:
        async with session.post(f"{node.url}/v1/chat/completions", json=chat_body("hello", stream=True)) as response:
            await response.content.readuntil(b"\n\n")
        response.close()
        await asyncio.wait_for(upstream.calls[0].cut.wait(), 5)
        await until(lambda: len(node.node.flights) == 0)
        counted = await node.stats()

    assert counted["stored"] == 0
    assert counted["ended"]["gone"] == 1


async def test_a_route_may_finish_and_store_what_nobody_waits_for(upstream, tmp_path):
    gate = asyncio.Event()
    upstream.on("m", stepwise(gate))
    route = '[[routes]]\nname = "r"\nmodels = ["*"]\nupstream = "fake"\nfinish_and_store = true\n'
    async with running(in_front_of(upstream.url, route), tmp_path) as node:
        leader = asyncio.create_task(node.chat("hello", stream=True))
        await upstream.called(1)
        leader.cancel()
        await until(lambda: node.node.counters.ended["gone"] == 1)
        gate.set()
        await until(lambda: node.node.keeping.kept == 1)
        again = await node.chat("hello")

    assert again.is_hit


async def test_a_stopped_client_never_leaves_a_half_answer_behind(upstream, tmp_path):
    """A client killed in mid-body: the next one gets the whole answer."""
    gate = asyncio.Event()
    upstream.on("m", stepwise(gate))
    async with running(in_front_of(upstream.url), tmp_path) as node:
        killed = asyncio.create_task(node.chat("hello", stream=True))
        await upstream.called(1)
        killed.cancel()
        await until(lambda: len(node.node.flights) == 0)
        gate.set()
        answered = await node.chat("hello", stream=True)

    assert answered.text.startswith("You said 'hello'")
    assert answered.body.endswith(b"data: [DONE]\n\n")


async def test_usage_reaches_those_who_asked_and_nobody_else(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        miss_without = await node.chat("a", stream=True)
        hit_with = await node.chat("a", stream=True, stream_options=USAGE)
        hit_without = await node.chat("a", stream=True)
        miss_with = await node.chat("b", stream=True, stream_options=USAGE)

    assert b'"usage"' not in miss_without.body
    assert b'"usage"' not in hit_without.body
    assert b'"total_tokens": 12' in hit_with.body
    assert b'"total_tokens": 12' in miss_with.body
    assert hit_with.is_hit
    assert hit_without.is_hit


async def test_a_streamed_miss_asks_for_usage_and_changes_no_other_byte(upstream, tmp_path):
    sent = (
        b'{"model": "m",  "stream":true, "temperature":1.0, "messages":[{"role":"user","content":"\\u00e9 \xc3\xa9"}]}'
    )
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await node.send("POST", "/v1/chat/completions", sent)

    body = upstream.calls[0].body
    assert json.loads(body)["stream_options"] == {"include_usage": True}
    for untouched in (b'"temperature":1.0', b'[{"role":"user","content":"\\u00e9 \xc3\xa9"}]'):
        assert untouched in body


async def test_a_whole_miss_reaches_the_upstream_byte_for_byte(upstream, tmp_path):
    sent = b'{"model": "m",  "temperature":1.0, "messages":[{"role":"user","content":"\\u00e9"}], "x": 1e2}'
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await node.send("POST", "/v1/chat/completions", sent)

    assert upstream.calls[0].body == sent


async def test_a_record_that_lacks_usage_is_replaced_by_one_that_has_it(upstream, tmp_path):
    route = '[[routes]]\nname = "r"\nmodels = ["*"]\nupstream = "fake"\nask_usage = false\n'
    async with running(in_front_of(upstream.url, route), tmp_path) as node:
        await node.chat("hello", stream=True)
        streamed = await node.chat("hello", stream=True)
        lacking = await node.chat("hello")
        whole_hit = await node.chat("hello")

    assert streamed.is_hit
    assert "detail=lacks-usage" in lacking.cache_status
    assert "stored" in lacking.cache_status
    assert whole_hit.is_hit
    assert whole_hit.json["usage"]["total_tokens"] == 12
    assert len(upstream.calls) == 2


async def test_an_origin_that_tells_no_usage_though_asked_is_hit_all_the_same(upstream, tmp_path):
    async def without(call, writer, serial):
        told = chat(call.json, text_for(call.json, serial))
        del told["usage"]
        await whole(writer, json.dumps(told).encode())

    upstream.on("m", without)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await node.chat("hello")
        again = await node.chat("hello")

    assert again.is_hit


async def test_an_upstream_that_streams_though_asked_for_a_whole_is_given_whole(upstream, tmp_path):
    async def streams(call, writer, serial):
        await stream(writer, chunks_of(chat(call.json, text_for(call.json, serial)), usage=True))

    upstream.on("m", streams)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        miss = await node.chat("hello")
        hit = await node.chat("hello")

    assert miss.headers["content-type"] == hit.headers["content-type"] == "application/json"
    assert miss.json == hit.json
    assert hit.is_hit


async def test_an_upstream_that_answers_whole_though_asked_to_stream_is_given_as_a_stream(upstream, tmp_path):
    async def answers_whole(call, writer, serial):
        await whole(writer, json.dumps(chat(call.json, text_for(call.json, serial))).encode())

    upstream.on("m", answers_whole)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        miss = await node.chat("hello", stream=True)
        hit = await node.chat("hello", stream=True)

    assert miss.headers["content-type"].startswith("text/event-stream")
    assert miss.body == hit.body
    assert hit.is_hit


async def test_a_replayed_transcript_is_the_recorded_one_byte_for_byte(upstream, tmp_path):
    odd = [
        b'data:{"id":"x","choices":[{"index":0,"delta":{"role":"assistant","content":"a"}}]}\r\n\r\n',
        b": comment\n\n",
    ]
    odd += [b'event: x\ndata: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n', b"data: [DONE]\n\n"]

    async def reply(call, writer, serial):
        await stream(writer, odd)

    upstream.on("m", reply)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        miss = await node.chat("hello", stream=True)
        hit = await node.chat("hello", stream=True)

    assert hit.is_hit
    assert hit.body == miss.body == b"".join(odd)


async def test_a_pass_never_collapses(upstream, tmp_path):
    gate = asyncio.Event()
    upstream.on("m", stepwise(gate))
    async with running(in_front_of(upstream.url), tmp_path) as node:
        asking = [asyncio.create_task(node.chat("hello", {"cache-control": "no-store"}, stream=True)) for _ in range(5)]
        await upstream.called(5)
        gate.set()
        answers = await asyncio.gather(*asking)

    assert len({a.text for a in answers}) == 5


async def test_many_at_once_share_one_call(upstream, tmp_path):
    gate = asyncio.Event()

    async def slow(call, writer, serial):
        await gate.wait()
        await whole(writer, json.dumps(chat(call.json, text_for(call.json, serial))).encode())

    upstream.on("m", slow)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        asking = [asyncio.create_task(node.chat("hello")) for _ in range(50)]
        await until(lambda: sum(len(f.riders) for f in node.node.flights._all) == 50)
        gate.set()
        answers = await asyncio.gather(*asking)

    assert len(upstream.calls) == 1
    assert len({a.body for a in answers}) == 1


async def test_a_long_answer_goes_through_with_bounded_memory_and_is_not_kept(upstream, tmp_path):
    pieces = 300

    async def long(call, writer, serial):
        await begin_stream(writer)
        event = chunks_of(chat(call.json, "x"), usage=False)[1].replace(b'"x"', b'"' + b"x" * 65_000 + b'"')
        for _ in range(pieces):
            await send_chunk(writer, event)
        for last in chunks_of(chat(call.json, "x"), usage=False)[-2:]:
            await send_chunk(writer, last)
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    upstream.on("m", long)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        answered = await node.chat("hello", stream=True)
        again = await node.chat("hello", stream=True)

    assert answered.text == again.text == "x" * 65_000 * pieces
    assert not again.is_hit


async def test_an_answer_given_in_another_shape_tells_its_length_and_why_it_was_not_kept(upstream, tmp_path):
    async def cut_by_length(call, writer, serial):
        await stream(writer, chunks_of(chat(call.json, "some words", finish="length"), usage=True))

    upstream.on("m", cut_by_length)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        answered = await node.chat("hello")
        kept = await node.chat("hello", max_tokens=5)

    assert answered.cache_status.startswith("Foretold; fwd=uri-miss; key=")
    assert answered.cache_status.endswith("detail=not-kept-length")
    assert int(answered.headers["content-length"]) == len(answered.body)
    assert "; stored" in kept.cache_status


async def test_a_follower_who_stops_reading_holds_up_nobody(upstream, tmp_path):
    gate = asyncio.Event()
    piece = b"data: " + b"y" * 2**20 + b"\n\n"

    async def long(call, writer, serial):
        await gate.wait()
        await stream(writer, [piece] * 24 + [b"data: [DONE]\n\n"])

    upstream.on("m", long)
    body = json.dumps(chat_body("hello", stream=True)).encode()
    asked = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    async with running(in_front_of(upstream.url), tmp_path) as node:
        node.node.flying.flights = Flights(patience_s=0.2)
        leader = asyncio.create_task(node.chat("hello", stream=True))
        await upstream.called(1)
        with socket.create_connection(node.url.removeprefix("http://").split(":")) as idle:
            idle.sendall(asked)
            await until(lambda: len(next(iter(node.node.flights._all)).riders) == 2)
            gate.set()
            answered = await leader
        await until(lambda: len(node.node.flights) == 0)

    assert answered.body == piece * 24 + b"data: [DONE]\n\n"
    assert len(upstream.calls) == 1


async def old_client(url: str, body: bytes) -> tuple[bytes, bytes]:
    """Head and body as a client of HTTP/1.0 reads them: up to the end of the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    writer.write(b"POST /v1/chat/completions HTTP/1.0\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body))
    writer.write(body)
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        return head, await reader.read()
    finally:
        writer.close()


async def test_a_stream_to_http_1_0_has_no_chunks_and_ends_with_its_connection(upstream, tmp_path):
    asked = json.dumps(chat_body("hello", stream=True)).encode()
    async with running(in_front_of(upstream.url), tmp_path) as node:
        head, body = await old_client(node.url, asked)
        again = await old_client(node.url, asked)

    assert b"transfer-encoding" not in head
    assert b"connection: close\r\n" in head
    assert body.startswith(b"data: {")
    assert body.endswith(b"data: [DONE]\n\n")
    assert again[1] == body


async def test_an_answer_to_http_1_0_that_breaks_off_is_reset_and_never_taken_for_whole(upstream, tmp_path):
    async def cut(call, writer, serial):
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")
        await writer.drain()
        writer.transport.abort()

    upstream.on("m", cut)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        with pytest.raises(ConnectionResetError):
            await old_client(node.url, json.dumps(chat_body("hello", store=True)).encode())
