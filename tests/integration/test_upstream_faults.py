"""What an upstream does wrong is never kept, never turned into a success, and never hangs a caller (rules P1, L1, U1)."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib

import pytest

from tests.clock import Clock
from tests.fakes.upstream import FakeUpstream, begin_stream, chat, chunks_of, send_chunk, stream, text_for, whole
from tests.running import in_front_of, running

GOOD = chat({"model": "m"}, "A good answer.")


def raw(head: str, body: bytes):
    """A reply of these very bytes, after which the connection closes."""

    async def reply(call, writer, serial):
        writer.write(head.encode("latin-1") + body)
        await writer.drain()
        writer.close()

    return reply


def told(value, *, status=200, kind="application/json", more=""):
    async def reply(call, writer, serial):
        await whole(writer, json.dumps(value).encode(), status=status, kind=kind, more=more)

    return reply


def with_choice(**members):
    return {**GOOD, "choices": [{**GOOD["choices"][0], **members}]}


NOT_KEPT = {
    "an error in a 200": told({"error": {"message": "overloaded"}}),
    "no choice": told({**GOOD, "choices": []}),
    "no content": told(with_choice(message={"role": "assistant", "content": None})),
    "an empty text": told(with_choice(message={"role": "assistant", "content": ""})),
    "cut by a filter": told(with_choice(finish_reason="content_filter")),
    "cut by a length nobody asked for": told(with_choice(finish_reason="length")),
    "an unknown finish": told(with_choice(finish_reason="insufficient_system_resource")),
    "no finish": told(with_choice(finish_reason=None)),
    "a page of HTML": told("<html>", kind="text/html"),
    "an empty body": raw("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 0\r\n\r\n", b""),
    "204": raw("HTTP/1.1 204 No Content\r\n\r\n", b""),
    "half a JSON with the right length": raw(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 20\r\n\r\n",
        json.dumps(GOOD).encode()[:20],
    ),
    "an end told only by the connection": raw(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n", json.dumps(GOOD).encode()
    ),
    "a coding we don't know": told(GOOD, more="content-encoding: br\r\n"),
}


@pytest.mark.parametrize("fault", NOT_KEPT, ids=str)
async def test_what_is_no_real_answer_is_passed_on_and_never_kept(upstream, tmp_path, fault):
    upstream.on("m", NOT_KEPT[fault])
    async with running(in_front_of(upstream.url), tmp_path) as node:
        first = await node.chat("hello")
        second = await node.chat("hello")

    assert first.status in (200, 204)
    assert not second.is_hit
    assert len(upstream.calls) == 2


ERRORS = [400, 401, 402, 403, 404, 408, 409, 413, 422, 425, 429, 500, 501, 502, 503, 529]


@pytest.mark.parametrize("status", ERRORS)
async def test_an_error_keeps_its_status_and_its_body_and_is_not_replayed_beyond_its_time(upstream, tmp_path, status):
    clock = Clock()
    upstream.on("m", told({"error": {"message": "no", "n": status}}, status=status, more="retry-after: 60\r\n"))
    async with running(in_front_of(upstream.url), tmp_path, now_ms=clock, monotonic_ms=clock) as node:
        first = await node.chat("hello")
        calls_for_one = len(upstream.calls)
        clock.forward(s=10)
        second = await node.chat("hello")

    assert first.status == second.status == status
    assert first.json == {"error": {"message": "no", "n": status}}
    assert first.headers["retry-after"] == "60"
    assert "stored" not in first.cache_status
    assert len(upstream.calls) == 2 * calls_for_one


async def test_length_is_a_real_answer_when_the_request_asked_for_it(upstream, tmp_path):
    upstream.on("m", told(with_choice(finish_reason="length")))
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await node.chat("hello", max_tokens=5)
        again = await node.chat("hello", max_tokens=5)

    assert again.is_hit
    assert again.json["choices"][0]["finish_reason"] == "length"


CUTS = {
    "a body shorter than its length": "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n",
    "a chunked body without its last chunk": (
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n20\r\n"
    ),
}


@pytest.mark.parametrize("cut", CUTS, ids=str)
async def test_an_answer_cut_in_its_body_never_looks_whole(upstream, tmp_path, cut):
    upstream.on("m", raw(CUTS[cut], json.dumps(GOOD).encode()[:20]))
    async with running(in_front_of(upstream.url), tmp_path) as node:
        outcome = await _outcome_of(node.chat("hello"))
        counted = await node.stats()

    assert outcome in ("cut", 502)
    assert counted["stored"] == 0


async def test_a_gzip_stream_without_its_end_never_looks_whole(upstream, tmp_path):
    packed = gzip.compress(json.dumps(GOOD).encode() * 50)[:-8]
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: {len(packed)}\r\n\r\n"
    upstream.on("m", raw(head, packed))
    async with running(in_front_of(upstream.url), tmp_path) as node:
        outcome = await _outcome_of(node.chat("hello"))
        counted = await node.stats()

    assert outcome in ("cut", 502)
    assert counted["stored"] == 0


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress], ids=["gzip", "deflate"])
async def test_a_coded_answer_is_kept_and_given_uncoded(upstream, tmp_path, pack):
    packed = pack(json.dumps(GOOD).encode())
    coding = "gzip" if pack is gzip.compress else "deflate"

    async def reply(call, writer, serial):
        await whole(writer, packed, more=f"content-encoding: {coding}\r\n")

    upstream.on("m", reply)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        first = await node.chat("hello")
        second = await node.chat("hello")

    assert second.is_hit
    assert first.json == second.json == GOOD
    assert "content-encoding" not in first.headers


async def test_a_gzip_bomb_is_cut_at_the_cap_and_memory_stays_bounded(upstream, tmp_path):
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join(packer.compress(b"\0" * 2**20) for _ in range(300)) + packer.flush()

    async def reply(call, writer, serial):
        await whole(writer, bomb, more="content-encoding: gzip\r\n")

    upstream.on("m", reply)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        outcome = await _outcome_of(node.chat("hello"))
        again = await _outcome_of(node.chat("hello"))

    assert {outcome, again} <= {"cut", 502}


STREAM_FAULTS = {
    "no [DONE]": lambda events: events[:-1],
    "no finish": lambda events: events[:-3] + events[-1:],
    "[DONE] twice": lambda events: [*events, events[-1]],
    "an event after [DONE]": lambda events: [*events, events[0]],
    "an event that isn't JSON": lambda events: [*events[:-1], b"data: {oops\n\n", events[-1]],
    "an error event": lambda events: [*events[:-1], b'data: {"error":{"message":"x"}}\n\n', events[-1]],
    "an event that isn't UTF-8": lambda events: [*events[:-1], b'data: {"a":"\xff"}\n\n', events[-1]],
}


@pytest.mark.parametrize("fault", STREAM_FAULTS, ids=str)
async def test_a_stream_without_a_clean_end_is_passed_on_and_never_kept(upstream, tmp_path, fault):
    async def reply(call, writer, serial):
        events = chunks_of(chat(call.json, text_for(call.json, serial)), usage=True)
        await stream(writer, STREAM_FAULTS[fault](events))

    upstream.on("m", reply)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await node.chat("hello", stream=True)
        again = await node.chat("hello", stream=True)

    assert not again.is_hit
    assert len(upstream.calls) == 2


async def test_a_stream_that_breaks_off_ends_with_an_error_event_and_without_done(upstream, tmp_path):
    async def reply(call, writer, serial):
        events = chunks_of(chat(call.json, "some words that come"), usage=False)
        await begin_stream(writer)
        for event in events[:3]:
            await send_chunk(writer, event)
        await send_chunk(writer, events[3][:20])
        writer.close()

    upstream.on("m", reply)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        cut = await node.chat("hello", stream=True)
        again = await node.chat("hello", stream=True)
        counted = await node.stats()

    told_events = [json.loads(line[6:]) for line in cut.body.decode().split("\n") if line.startswith("data: ")]
    assert told_events[-1]["error"]["code"] == "origin_cut"
    assert b"[DONE]" not in cut.body
    assert not again.is_hit
    assert counted["ended"]["cut"] == 2


async def test_an_upstream_that_refuses_connections_is_a_clear_502(tmp_path):
    async with FakeUpstream() as gone:
        url = gone.url
    async with running(in_front_of(url), tmp_path) as node:
        refused = await node.chat("hello")

    assert refused.status == 502
    assert refused.json["error"]["code"] == "origin_unreachable"
    assert "fake" in refused.json["error"]["message"]


async def test_each_time_out_fires_alone(upstream, tmp_path):
    async def silent(call, writer, serial):
        await call.cut.wait()

    async def stalls(call, writer, serial):
        await begin_stream(writer)
        await send_chunk(writer, chunks_of(GOOD, usage=False)[0])
        await call.cut.wait()

    async def endless(call, writer, serial):
        await begin_stream(writer)
        while not call.cut.is_set():
            await send_chunk(writer, chunks_of(GOOD, usage=False)[1])
            await asyncio.wait([asyncio.ensure_future(call.cut.wait())], timeout=0.02)

    upstream.on("silent", silent)
    upstream.on("stalls", stalls)
    upstream.on("endless", endless)
    settings = in_front_of(
        upstream.url, 'first_byte_timeout = "200ms"\nidle_timeout = "300ms"\ntotal_timeout = "800ms"\n'
    )
    async with running(settings, tmp_path) as node:
        first = await node.chat("hello", model="silent")
        idle = await node.chat("hello", model="stalls", stream=True)
        total = await node.chat("hello", model="endless", stream=True)

    assert first.status == 504
    assert first.json["error"]["code"] == "origin_timeout"
    assert b"origin_timeout" in idle.body
    assert b"origin_timeout" in total.body
    for call in upstream.calls:
        await asyncio.wait_for(call.cut.wait(), 5)


async def test_a_request_that_was_sent_and_timed_out_is_not_sent_again(upstream, tmp_path):
    async def silent(call, writer, serial):
        await call.cut.wait()

    upstream.on("m", silent)
    async with running(in_front_of(upstream.url, 'first_byte_timeout = "100ms"\n'), tmp_path) as node:
        await node.chat("hello")

    assert len(upstream.calls) == 1


async def test_a_busy_upstream_is_asked_again_and_the_caller_sees_only_the_answer(upstream, tmp_path):
    async def at_first_busy(call, writer, serial):
        if serial == 1:
            await whole(writer, b'{"error":{"message":"busy"}}', status=503, more="retry-after: 0\r\n")
        else:
            await whole(writer, json.dumps(GOOD).encode())

    upstream.on("m", at_first_busy)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        answered = await node.chat("hello")

    assert answered.status == 200
    assert len(upstream.calls) == 2


async def test_a_change_of_protocol_that_nobody_asked_for_is_a_502(upstream, tmp_path):
    upstream.on("m", raw("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n", b"bytes"))
    async with running(in_front_of(upstream.url), tmp_path) as node:
        refused = await node.chat("hello")

    assert refused.status == 502
    assert refused.json["error"]["code"] == "origin_failed"


async def test_a_redirect_is_never_followed(upstream, tmp_path):
    async def away(call, writer, serial):
        await whole(writer, b"{}", status=307, more=f"location: {upstream.url}/elsewhere\r\n")

    upstream.on("m", away)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        session_answer = await _raw_status(node)

    assert session_answer == 307
    assert len(upstream.calls) == 1


async def test_a_fallback_answers_labelled_and_under_its_own_name(upstream, tmp_path):
    async with FakeUpstream() as first:
        first.on("m", told({"error": {"message": "down"}}, status=500))
        settings = f"""
        [upstreams.first]
        url = "{first.url}"
        [upstreams.second]
        url = "{upstream.url}"
        [[routes]]
        name = "r"
        models = ["*"]
        upstream = "first"
        fallback = ["second"]
        """
        clock = Clock()
        async with running(settings, tmp_path, now_ms=clock, monotonic_ms=clock) as node:
            answers = [await node.chat("hello"), await node.chat("hello", stream=True)]
            first.on("m", told(GOOD))
            clock.forward(s=1)
            back = await node.chat("hello")

    for answer in answers:
        assert answer.status == 200
        assert "fwd=uri-miss" in answer.cache_status
        assert "detail=fallback" in answer.cache_status
        assert "stored" not in answer.cache_status
        assert answer.headers["foretold-fallback"] == "second"
    assert not back.is_hit
    assert "foretold-fallback" not in back.headers
    assert back.json == GOOD


async def test_where_all_origins_fail_the_first_ones_answer_is_told(upstream, tmp_path):
    upstream.on("m", told({"error": {"message": "second"}}, status=503))
    async with FakeUpstream() as first:
        first.on("m", told({"error": {"message": "first"}}, status=500))
        settings = f"""
        [upstreams.first]
        url = "{first.url}"
        [upstreams.second]
        url = "{upstream.url}"
        retries = 0
        [[routes]]
        name = "r"
        models = ["*"]
        upstream = "first"
        fallback = ["second"]
        """
        async with running(settings, tmp_path) as node:
            answered = await node.chat("hello")

    assert answered.status == 500
    assert answered.json["error"]["message"] == "first"


async def _outcome_of(asking) -> object:
    import aiohttp

    try:
        return (await asking).status
    except (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError):
        return "cut"


async def _raw_status(node) -> int:
    import aiohttp

    async with (
        aiohttp.ClientSession() as session,
        session.post(
            f"{node.url}/v1/chat/completions", json={"model": "m", "messages": []}, allow_redirects=False
        ) as response,
    ):
        return response.status


async def test_a_slow_reader_is_not_taken_for_a_stalled_upstream(upstream, tmp_path):
    from foretold.origins.upstream import Timeouts, Upstream
    from foretold.ports import Asked, Forwarded

    async def large(call, writer, serial):
        await whole(writer, b'"' + b"x" * 2_000_000 + b'"')

    upstream.on("/v1/large", large)
    origin = Upstream("fake", upstream.url, timeouts=Timeouts(idle_s=0.05))
    incoming = await origin.fetch(Asked("json /large", "", "POST", "/large", body=b"{}"), Forwarded())
    got = 0
    async for chunk in incoming.chunks():
        got += len(chunk)
        if got == len(chunk):
            await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=0.2)
    await origin.close()

    assert got == 2_000_002
    assert incoming.is_proven


async def test_a_query_with_side_effects_is_asked_once_however_it_fails(upstream, tmp_path):
    async def fails(call, writer, serial):
        await whole(writer, b"{}", status=502)

    upstream.on("m", fails)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        told = await node.chat("hello", store=True)

    assert told.status == 502
    assert len(upstream.calls) == 1
