"""A connection to an upstream that said anything unasked is never used again, and every other one is."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.fakes.upstream import FakeUpstream, chat, text_for
from tests.running import in_front_of, running

SECRET = "What somebody else was told."
IDLE_408 = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


def answer_bytes(told: object) -> bytes:
    body = json.dumps(told).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


UNASKED = answer_bytes(chat({"model": "m"}, SECRET))


class SaysMore:
    """An upstream that answers well, and says more after its first answer: at once, or once it is let."""

    def __init__(self, more: bytes, *, at_once: bool, in_pieces: bool = False):
        self._more = more
        self._at_once = at_once
        self._in_pieces = in_pieces
        self.may_say = asyncio.Event()
        self.connections: list[object] = []
        self.saying: asyncio.Task[None] | None = None

    async def __call__(self, call, writer, serial):
        self.connections.append(writer.transport)
        good = answer_bytes(chat(call.json, text_for(call.json, serial)))
        if len(self.connections) > 1:
            writer.write(good)
        elif self._at_once:
            if self._in_pieces:
                head, _, body = good.partition(b"\r\n\r\n")
                writer.write(head + b"\r\n\r\n" + body[:10])
                await asyncio.sleep(0)
                good = body[10:]
            writer.write(good + self._more)
        else:
            writer.write(good)
            self.saying = asyncio.create_task(self._say(writer))
        await writer.drain()

    async def _say(self, writer: asyncio.StreamWriter) -> None:
        await self.may_say.wait()
        writer.write(self._more)
        await writer.drain()


@pytest.fixture
async def upstream():
    async with FakeUpstream() as fake:
        yield fake


@pytest.mark.parametrize("in_pieces", [False, True])
@pytest.mark.parametrize(
    "more", [UNASKED, UNASKED[:40], UNASKED[:-20], IDLE_408], ids=["answer", "half a head", "half an answer", "408"]
)
async def test_what_comes_behind_an_answer_reaches_nobody(upstream, tmp_path, more, in_pieces):
    says = SaysMore(more, at_once=True, in_pieces=in_pieces)
    upstream.on("m", says)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await node.chat("one")
        second = await node.chat("two")
        again = await node.chat("two")

    assert "'two'" in second.text
    assert again.text == second.text
    assert len(set(says.connections)) == 2


@pytest.mark.parametrize("more", [UNASKED, b"HTTP/1.1 2", IDLE_408, b"junk"], ids=["answer", "half", "408", "junk"])
async def test_what_an_idle_connection_says_reaches_nobody(upstream, tmp_path, more):
    says = SaysMore(more, at_once=False)
    upstream.on("m", says)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await node.chat("one")
        says.may_say.set()
        await says.saying
        second = await node.chat("two")
        again = await node.chat("two")

    assert "'two'" in second.text
    assert again.text == second.text
    assert len(set(says.connections)) == 2


async def test_what_lies_unread_in_the_kernel_when_the_next_question_goes_out_reaches_nobody(upstream):
    from foretold.origins.upstream import Upstream
    from foretold.ports import Asked, Forwarded

    origin = Upstream("fake", upstream.url)
    says = SaysMore(UNASKED, at_once=False)
    upstream.on("m", says)

    async def told(text: str) -> bytes:
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
        incoming = await origin.fetch(Asked("chat", "m", "POST", "/chat/completions", body=body), Forwarded())
        got = b"".join([chunk async for chunk in incoming.chunks()])
        await incoming.close()
        return got

    await told("one")
    # Straight into the kernel, and asked again before the loop has looked there.
    says.connections[0].get_extra_info("socket")._sock.send(UNASKED)
    second = await told("two")
    says.saying.cancel()
    await origin.close()

    assert b"'two'" in second
    assert len(set(says.connections)) == 2


async def test_good_connections_are_used_again(upstream, tmp_path):
    says = SaysMore(b"", at_once=True)
    upstream.on("m", says)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        for text in ("one", "two", "three"):
            assert f"'{text}'" in (await node.chat(text)).text

    assert len(says.connections) == 3
    assert len(set(says.connections)) == 1
