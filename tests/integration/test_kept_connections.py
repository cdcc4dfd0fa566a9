"""A connection to an upstream that said anything unasked is never used again, and every other one is."""

from __future__ import annotations

import asyncio
import json
import os

import pytest
import uvloop

from foretold.origins.upstream import Upstream
from foretold.ports import Asked, Forwarded
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

    def __init__(self, more: bytes, *, at_once: bool):
        self._more = more
        self._at_once = at_once
        self.may_say = asyncio.Event()
        self.connections: list[object] = []
        self.saying: asyncio.Task[None] | None = None

    async def __call__(self, call, writer, serial):
        self.connections.append(writer.transport)
        good = answer_bytes(chat(call.json, text_for(call.json, serial)))
        if len(self.connections) > 1:
            writer.write(good)
        elif self._at_once:
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


@pytest.mark.parametrize(
    "more", [UNASKED, UNASKED[:40], UNASKED[:-20], IDLE_408], ids=["answer", "half a head", "half an answer", "408"]
)
async def test_what_comes_behind_an_answer_reaches_nobody(upstream, tmp_path, more):
    says = SaysMore(more, at_once=True)
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


@pytest.mark.parametrize(
    "more", [UNASKED, UNASKED[:40], UNASKED[:-20], IDLE_408], ids=["answer", "head", "half", "408"]
)
async def test_what_comes_in_one_piece_with_an_answers_end_reaches_nobody(more):
    head_is_here = asyncio.Event()
    connections = []

    async def reply(call, writer, serial):
        connections.append(writer.transport)
        good = answer_bytes(chat(call.json, text_for(call.json, serial)))
        if serial == 1:
            writer.write(good[:-10])
            await head_is_here.wait()
            writer.write(good[-10:] + more)
        else:
            writer.write(good)
        await writer.drain()

    async with FakeUpstream() as upstream:
        upstream.on("m", reply)
        origin = Upstream("fake", upstream.url)
        told = []
        for text in ("one", "two"):
            body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
            incoming = await origin.fetch(Asked("chat", "m", "POST", "/chat/completions", body=body), Forwarded())
            head_is_here.set()
            told.append(b"".join([chunk async for chunk in incoming.chunks()]))
            await incoming.close()
        await origin.close()

    assert b"'one'" in told[0]
    assert b"'two'" in told[1]
    assert len(set(connections)) == 2


async def three_questions(says: SaysMore, *, before_the_second=None) -> list[bytes]:
    """The answers an origin gives without a node before it."""
    async with FakeUpstream() as upstream:
        upstream.on("m", says)
        origin = Upstream("fake", upstream.url)
        told = []
        for text in ("one", "two", "three"):
            body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
            incoming = await origin.fetch(Asked("chat", "m", "POST", "/chat/completions", body=body), Forwarded())
            told.append(b"".join([chunk async for chunk in incoming.chunks()]))
            await incoming.close()
            if before_the_second is not None and text == "one":
                before_the_second()
        await origin.close()
    return told


LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])


@LOOPS
def test_what_lies_unread_in_the_kernel_when_the_next_question_goes_out_reaches_nobody(loop):
    says = SaysMore(b"", at_once=True)

    def behind_the_loops_back() -> None:
        os.write(says.connections[0].get_extra_info("socket").fileno(), UNASKED)

    with asyncio.Runner(loop_factory=loop) as runner:
        told = runner.run(three_questions(says, before_the_second=behind_the_loops_back))

    assert [f"'{text}'".encode() in said for text, said in zip(("one", "two", "three"), told, strict=True)] == [
        True
    ] * 3
    assert len(set(says.connections)) == 2


@LOOPS
def test_every_loop_uses_good_connections_again(loop):
    says = SaysMore(b"", at_once=True)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(three_questions(says))

    assert len(says.connections) == 3
    assert len(set(says.connections)) == 1


async def test_good_connections_are_used_again(upstream, tmp_path):
    says = SaysMore(b"", at_once=True)
    upstream.on("m", says)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        for text in ("one", "two", "three"):
            assert f"'{text}'" in (await node.chat(text)).text

    assert len(says.connections) == 3
    assert len(set(says.connections)) == 1
