"""Long answers are kept and given in both shapes, and nobody waits for them but those who asked (rules P3, R5)."""

from __future__ import annotations

import asyncio
import json

from tests.fakes.upstream import chat, chunks_of, stream
from tests.running import in_front_of, running

# As a transcript beyond what memory takes of one record.
LONG = ("x" * 99 + " ") * 6_000


def long_stream(calls=None):
    async def reply(call, writer, serial):
        events = chunks_of(chat(call.json, LONG, calls=calls, finish="tool_calls" if calls else "stop"), usage=True)
        await stream(writer, [b"".join(events[at : at + 1000]) for at in range(0, len(events), 1000)])

    return reply


CALL = {"id": "call_0123456789abcdef", "type": "function", "function": {"name": "f", "arguments": "{}"}}


async def test_a_long_transcript_is_made_whole_once_and_given_again_and_again(upstream, tmp_path):
    upstream.on("m", long_stream())
    async with running(in_front_of(upstream.url), tmp_path) as node:
        first = await node.chat("hello", stream=True)
        await node.node.keeping.flush()
        hits = await asyncio.gather(*(node.chat("hello") for _ in range(5)))
        later = await node.chat("hello")
        streamed = await node.chat("hello", stream=True)
        made = node.node.workshop.made

    assert len(first.body) > 2**20
    assert all(hit.is_hit for hit in [*hits, later, streamed])
    assert {hit.text for hit in hits} == {LONG} == {later.text}
    assert later.json["usage"]["total_tokens"] == 12
    assert streamed.body == first.body
    assert made == 2
    assert len(upstream.calls) == 1


async def test_a_long_answer_with_calls_has_fresh_ids_in_every_delivery(upstream, tmp_path):
    upstream.on("m", long_stream([CALL]))
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await node.chat("hello", stream=True)
        await node.node.keeping.flush()
        hits = await asyncio.gather(*(node.chat("hello") for _ in range(4)))

    ids = {hit.json["choices"][0]["message"]["tool_calls"][0]["id"] for hit in hits}
    assert all(hit.is_hit for hit in hits)
    assert len(ids) == 4


async def test_a_copy_of_a_long_answer_is_confirmed(upstream, tmp_path):
    upstream.on("m", long_stream())
    asked = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello"}]}).encode()
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await node.chat("hello", stream=True)
        await node.node.keeping.flush()
        hit = await node.send("QUERY", "/v1/chat/completions", asked)
        again = await node.send("QUERY", "/v1/chat/completions", asked, {"if-none-match": hit.headers["etag"]})

    assert hit.is_hit
    assert again.status == 304
