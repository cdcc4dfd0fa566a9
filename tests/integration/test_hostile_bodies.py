"""The documented answer to every hostile body, with memory bounded (rule K8)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource

import pytest

from tests.asking import chat_body
from tests.running import in_front_of, running

CHAT = "/v1/chat/completions"


def body_with(raw_member: bytes) -> bytes:
    return b'{"model":"m","messages":[{"role":"user","content":"hello"}],' + raw_member + b"}"


@pytest.mark.parametrize(
    ("raw_member", "why"),
    [
        (b'"seed":9223372036854775807', "unkeyable-number"),
        (b'"seed":9007199254740992', "unkeyable-number"),
        (b'"seed":-9007199254740992', "unkeyable-number"),
        (b'"seed":1e16', "unkeyable-number"),
        (b'"seed":18446744073709551616', "unkeyable-number"),
        (b'"temperature":1e400', "unkeyable-number"),
        (b'"stop":"\\ud800"', "unkeyable-surrogate"),
        (b'"seed":1,"seed":1', "unkeyable-repeat"),
        (b'"x":{"a":1,"\\u0061":2}', "unkeyable-repeat"),
        (b'"x":{"\\u003a":1,":":2}', "unkeyable-repeat"),
        (b'"x":"' + b"a" * (4 * 2**20) + b'"', "unkeyable-size"),
    ],
    ids=lambda v: v[:40] if isinstance(v, bytes) else v,
)
async def test_a_body_without_one_meaning_passes_untouched_and_says_why(upstream, tmp_path, raw_member, why):
    sent = body_with(raw_member)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        first = await node.send("POST", CHAT, sent)
        second = await node.send("POST", CHAT, sent)

    assert first.cache_status == second.cache_status == f"Foretold; fwd=bypass; detail={why}"
    assert [call.body for call in upstream.calls] == [sent, sent]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"not json",
        b'{"model":NaN}',
        b'{"model":Infinity}',
        b'\xef\xbb\xbf{"model":"m"}',
        body_with(b'"x":"\xff"'),
        body_with(b'"x":"\xed\xa0\x80"'),
        body_with(b'"x":' + b"[" * 100_000 + b"]" * 100_000),
        body_with(b'"x":' + b"[" * 127 + b"{}" + b"]" * 127),
        body_with(b'"x":[' + b"0," * 1_000_000 + b"0]"),
        body_with(b'"x":01'),
        body_with(b"'x':1"),
        b"[1, 2]",
        b'"text"',
        b"null",
    ],
    ids=lambda raw: repr(raw[:50]),
)
async def test_what_is_no_json_object_is_told_so_in_the_dialects_shape(upstream, tmp_path, raw):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        refused = await node.send("POST", CHAT, raw)

    assert refused.status == 400
    assert refused.json["error"]["type"] == "invalid_request_error"
    assert refused.json["error"]["code"] == "malformed_body"
    assert upstream.calls == []


async def test_a_body_nested_as_deep_as_allowed_is_kept(upstream, tmp_path):
    deep = body_with(b'"x":' + b"[" * 127 + b"]" * 127)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await node.send("POST", CHAT, deep)
        again = await node.send("POST", CHAT, deep)

    assert again.is_hit


async def test_ten_megabytes_pass_and_a_hundred_are_refused_before_they_are_read(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await node.chat("warm")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        ten = await node.chat("x" * 10_000_000)
        hundred = await _announce(node, length=100_000_000)
        grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024

    assert ten.cache_status == "Foretold; fwd=bypass; detail=unkeyable-size"
    assert hundred.startswith(b"HTTP/1.1 413 ")
    assert b"too_large" in hundred
    assert grown_mib < 200  # client and upstream run in this process too


async def test_a_chunked_body_is_cut_off_at_the_limit(upstream, tmp_path):
    settings = in_front_of(upstream.url, '[server]\nbody_limit = "64 KiB"\n')
    async with running(settings, tmp_path) as node:
        reader, writer = await _connect(node)
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n")
        piece = b"%x\r\n%b\r\n" % (32_768, b"x" * 32_768)
        writer.write(piece * 3)
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert upstream.calls == []


async def test_ten_thousand_headers_are_refused(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        reader, writer = await _connect(node)
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n"
        writer.write(head + b"".join(b"x-%d: 1\r\n" % i for i in range(10_000)) + b"\r\n{}")
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()

    assert answer.startswith(b"HTTP/1.1 431 ")


async def test_a_hundred_and_one_headers_are_refused_with_a_reason(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        refused = await node.chat("hello", {f"x-{i}": "1" for i in range(101)})

    assert refused.status == 431
    assert refused.json["error"]["code"] == "head_too_large"


async def test_a_head_that_never_ends_is_cut_off_by_size(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        reader, writer = await _connect(node)
        writer.write(b"POST / HTTP/1.1\r\nhost: localhost\r\nx: ")
        told = b""
        with contextlib.suppress(ConnectionError):  # what was still on its way when it was closed resets it
            while not writer.is_closing() and not reader.at_eof():
                writer.write(b"a" * 16_384)
                await writer.drain()
            told = await asyncio.wait_for(reader.read(), 10)
        writer.close()

    assert told == b"" or told.startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("sent", [b"", b"POST /v1/chat/completions HTTP/1.1\r\nhost: loc"], ids=["silent", "stalled"])
async def test_a_connection_whose_head_does_not_come_is_closed_in_time(upstream, tmp_path, sent):
    settings = in_front_of(upstream.url, '[server]\nhead_timeout = "200ms"\n')
    async with running(settings, tmp_path) as node:
        reader, writer = await _connect(node)
        writer.write(sent)
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()

    assert answer.startswith(b"HTTP/1.1 408 ")


async def test_a_body_that_stalls_is_given_up_in_time(upstream, tmp_path):
    settings = in_front_of(upstream.url, '[server]\nbody_timeout = "200ms"\n')
    async with running(settings, tmp_path) as node:
        reader, writer = await _connect(node)
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{")
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()

    assert answer.startswith(b"HTTP/1.1 408 ")


async def test_more_bodies_at_once_than_there_is_room_for_are_told_to_come_later(upstream, tmp_path):
    settings = in_front_of(upstream.url, '[server]\nbodies_together = "4 KiB"\n')
    async with running(settings, tmp_path) as node:
        refused = await node.chat("x" * 5000)
        fine = await node.chat("hello")

    assert refused.status == 503
    assert refused.headers["retry-after"] == "1"
    assert fine.status == 200


@pytest.mark.parametrize("coding", ["gzip", "br", "deflate", "gzip, identity"])
async def test_a_coded_body_is_refused(upstream, tmp_path, coding):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        refused = await node.chat("hello", {"content-encoding": coding})
        plain = await node.chat("hello", {"content-encoding": "identity"})

    assert refused.status == 415
    assert plain.status == 200


async def test_a_model_that_is_no_text_is_refused(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        refused = await node.post(CHAT, {**chat_body("hello"), "model": 7})

    assert refused.status == 400
    assert refused.json["error"]["param"] == "model"


async def test_a_body_of_colons_is_keyed_as_quickly_as_it_is_read(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await node.chat(":" * 1_000_000)
        again = await node.chat(":" * 1_000_000)

    assert again.is_hit


async def _connect(node):
    port = int(node.url.rpartition(":")[2])
    return await asyncio.open_connection("127.0.0.1", port)


async def _announce(node, *, length: int) -> bytes:
    """What a request is told that announces a body and has sent none of it yet."""
    reader, writer = await _connect(node)
    writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % length)
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return answer


def test_bodies_here_are_json_but_for_what_they_are_about():
    assert json.loads(body_with(b'"seed":1'))["seed"] == 1


async def test_controls_are_taken_out_of_a_body_with_a_lone_surrogate_too(upstream, tmp_path):
    sent = body_with(b'"cache" : {"no-cache":true} , "stop":"\\ud800" ,"\\udfff":1')
    async with running(in_front_of(upstream.url), tmp_path) as node:
        answer = await node.send("POST", CHAT, sent)

    assert answer.status == 200
    assert answer.cache_status == "Foretold; fwd=bypass; detail=unkeyable-surrogate"
    assert upstream.calls[0].body == (
        b'{"model":"m","messages":[{"role":"user","content":"hello"}],"stop":"\\ud800","\\udfff":1}'
    )


async def test_a_cache_object_with_many_members_costs_no_more_than_its_length(upstream, tmp_path):
    many = ",".join(f'"x{i}":1' for i in range(100_000))
    sent = body_with(b'"cache":{' + many.encode() + b"}")
    async with running(in_front_of(upstream.url), tmp_path) as node:
        async with asyncio.timeout(5):
            answer = await node.send("POST", CHAT, sent)

    assert answer.cache_status.endswith("detail=ignored-cache.x0")


async def test_no_name_of_a_callers_makes_an_answers_head_long(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        answer = await node.send("POST", CHAT, body_with(b'"cache":{"' + b"x" * 1_000_000 + b'":1}'))

    assert answer.cache_status.endswith("detail=ignored-cache")
