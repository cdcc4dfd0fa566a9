"""Streams of any language, cut anywhere: every chunk a caller gets is whole code points, and what is kept is as told."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest

from tests.asking import chat_body
from tests.fakes.upstream import begin_stream, chat, chunks_of, send_chunk
from tests.running import in_front_of, running

LANGUAGES = {
    "vietnamese": "Thủ đô của Việt Nam là Hà Nội, phải không ạ?",
    "thai": "ประเทศไทยมีเมืองหลวงคือกรุงเทพมหานคร",
    "arabic": "عاصمة مصر هي القاهرة، أليس كذلك؟",
    "emoji": "👩‍👩‍👧‍👦 🇻🇳 👍🏽 a𝄞b",
}
DECLARED = '[[routes]]\nname = "all"\nkind = "json"\npath = "/classify"\nupstream = "fake"\n'


def told_bytewise(event: dict) -> bytes:
    """As services write JSON that don't escape: the text's own bytes."""
    return b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\n\n"


def transcript_of(text: str) -> bytes:
    """An answer of one delta for each word, in UTF-8 and without escapes."""
    events = chunks_of(chat({"model": "m"}, text), usage=True)
    return b"".join(e if b"[DONE]" in e else told_bytewise(json.loads(e[6:])) for e in events)


def bytewise(content: bytes, *, kind: str = "text/event-stream", step: int = 1):
    """The content in chunks of one byte, so that every code point is cut wherever it can be."""

    async def reply(call, writer, serial):
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n"
        writer.write(head.encode())
        for at in range(0, len(content), step):
            await send_chunk(writer, content[at : at + step])
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    return reply


async def chunks_from(url: str, path: str, body: dict) -> list[bytes]:
    """The chunks of an answer as they were framed, not as the network joined them."""
    async with aiohttp.ClientSession() as session, session.post(url + path, json=body) as response:
        chunks, so_far = [], b""
        async for piece, is_end in response.content.iter_chunks():
            so_far += piece
            if is_end:
                chunks.append(so_far)
                so_far = b""
        return [*chunks, so_far] if so_far else chunks


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_stream_cut_inside_every_character_comes_in_whole_ones_and_is_kept_as_it_was_told(
    upstream, tmp_path, language
):
    text = LANGUAGES[language]
    transcript = transcript_of(text)
    upstream.on("m", bytewise(transcript))
    async with running(in_front_of(upstream.url), tmp_path) as node:
        asked = chat_body("hello", stream=True, stream_options={"include_usage": True})
        chunks = await chunks_from(node.url, "/v1/chat/completions", asked)
        replayed = await node.chat("hello", stream=True, stream_options={"include_usage": True})
        whole = await node.chat("hello")

    for chunk in chunks:
        chunk.decode()
    assert b"".join(chunks) == transcript
    assert replayed.is_hit
    assert replayed.body == transcript
    assert whole.is_hit
    assert whole.text == text
    assert len(upstream.calls) == 1


@pytest.mark.parametrize("language", LANGUAGES)
async def test_an_answer_that_came_whole_is_streamed_in_deltas_of_whole_code_points(upstream, tmp_path, language):
    text = LANGUAGES[language] * 20
    answer = json.dumps(chat({"model": "m"}, text), ensure_ascii=False).encode()
    upstream.on("m", bytewise(answer, kind="application/json", step=7))
    async with running(in_front_of(upstream.url), tmp_path) as node:
        chunks = await chunks_from(node.url, "/v1/chat/completions", chat_body("hello"))
        streamed = await node.chat("hello", stream=True)

    for chunk in chunks:
        chunk.decode()
    events = [json.loads(e[6:]) for e in streamed.body.split(b"\n\n") if e.startswith(b"data: {")]
    deltas = [e["choices"][0]["delta"].get("content") or "" for e in events]
    assert streamed.is_hit
    assert "".join(deltas) == text
    for delta in deltas:
        delta.encode()


@pytest.mark.parametrize(
    ("path", "kind"), [("/classify", "application/json"), ("/v1/responses", "text/event-stream; charset=utf-8")]
)
async def test_declared_routes_and_what_passes_are_cut_between_code_points_too(upstream, tmp_path, path, kind):
    content = f'data: {{"label":"{LANGUAGES["thai"]}"}}\n\n'.encode()
    cut_at = content.index("ร".encode()) + 1
    was_read = asyncio.Event()

    async def in_two(call, writer, serial):
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n".encode())
        await send_chunk(writer, content[:cut_at])
        await asyncio.wait_for(was_read.wait(), 20)
        await send_chunk(writer, content[cut_at:])
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    upstream.on("/v1" + path.removeprefix("/v1"), in_two)
    async with running(in_front_of(upstream.url, DECLARED), tmp_path) as node, aiohttp.ClientSession() as session:
        async with session.post(node.url + path, json={"model": "m", "input": "hello"}) as response:
            first = await asyncio.wait_for(response.content.readany(), 20)
            was_read.set()
            rest = await response.content.read()

    assert first == content[: cut_at - 1]
    assert first + rest == content


async def test_a_stream_that_breaks_off_inside_a_character_tells_whole_ones_and_is_not_kept(upstream, tmp_path):
    transcript = transcript_of(LANGUAGES["thai"])
    cut_at = transcript.rindex("ร".encode()) + 1

    async def breaks_off(call, writer, serial):
        await begin_stream(writer)
        await send_chunk(writer, transcript[:cut_at])
        writer.close()

    upstream.on("m", breaks_off)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        chunks = await chunks_from(node.url, "/v1/chat/completions", chat_body("hello", stream=True))
        again = await node.chat("hello", stream=True)

    for chunk in chunks:
        chunk.decode()
    assert b'"error"' in b"".join(chunks)
    assert not again.is_hit


HALVES = {
    # Half a code point in each of two events, and a pair of surrogates parted: both are some services' own cutting.
    "bytes": [b'{"content":"\xe0\xb8"}', b'{"content":"\xa3"}'],
    "surrogates": [b'{"content":"\\ud83d"}', b'{"content":"\\udc4d"}'],
}


@pytest.mark.parametrize("kind", HALVES)
async def test_deltas_that_are_halves_themselves_go_through_as_told_and_are_never_kept(upstream, tmp_path, kind):
    deltas = [b'{"role":"assistant"}', *HALVES[kind], b"{}"]
    finish = [b"null"] * 3 + [b'"stop"']
    events = [
        b'data: {"id":"x","choices":[{"index":0,"delta":%b,"finish_reason":%b}]}\n\n' % pair
        for pair in zip(deltas, finish, strict=True)
    ]
    transcript = b"".join(events) + b"data: [DONE]\n\n"
    upstream.on("m", bytewise(transcript, step=len(transcript)))
    async with running(in_front_of(upstream.url), tmp_path) as node:
        streamed = await node.chat("hello", stream=True)
        again = await node.chat("hello", stream=True)

    assert streamed.body == transcript
    assert not again.is_hit
    assert len(upstream.calls) == 2
