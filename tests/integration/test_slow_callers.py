"""Callers that send slowly, read slowly, fall silent or half leave: each ends in time and costs others nothing."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest

from tests.asking import chat_body
from tests.fakes.upstream import begin_stream, send_chunk, whole
from tests.integration.framing_forms import asking, post
from tests.raw import RawAnswer, RawCaller, calling
from tests.running import in_front_of, running
from tests.waiting import until

ESTABLISHED = 1


def chat(mark: str, lines: bytes = b"") -> bytes:
    body = asking(mark)
    return post(b"content-length: %d\r\n%b" % (len(body), lines), body)


def server(upstream, settings: str) -> str:
    return in_front_of(upstream.url, f"[server]\n{settings}\n")


def held_until(gate: asyncio.Event) -> Callable:
    async def reply(call, writer, serial):
        await gate.wait()
        await whole(writer, b'{"choices": []}')

    return reply


async def dripped(caller: RawCaller, sent: bytes) -> tuple[RawAnswer | None, int]:
    """What comes back while bytes go out one by one, and how many went."""
    answering = asyncio.create_task(caller.answer())
    for count, byte in enumerate(sent):
        caller.send(bytes([byte]))
        await asyncio.wait([answering], timeout=0.02)
        if answering.done():
            return await answering, count + 1
    raise AssertionError("all of it was taken")


async def test_bytes_now_and_then_do_not_extend_the_time_for_a_head(upstream, tmp_path):
    async with running(server(upstream, 'head_timeout = "300ms"'), tmp_path) as node, calling(node.url) as caller:
        answer, count = await dripped(caller, b"POST / HTTP/1.1\r\nx: " + b"a" * 10_000)
        ended = await caller.answer()

    assert answer is not None
    assert answer.status == 408
    assert b'"too_slow"' in answer.body
    assert 1 < count < 100
    assert ended is None


async def test_bytes_now_and_then_do_not_extend_the_time_for_a_second_head(upstream, tmp_path):
    async with running(server(upstream, 'head_timeout = "300ms"'), tmp_path) as node, calling(node.url) as caller:
        caller.send(chat("first"))
        first = await caller.answer()
        answer, count = await dripped(caller, b"POST / HTTP/1.1\r\nx: " + b"a" * 10_000)

    assert (first.status, answer.status) == (200, 408)
    assert 1 < count < 100


async def test_bytes_now_and_then_do_not_extend_the_time_for_a_body(upstream, tmp_path):
    async with running(server(upstream, 'body_timeout = "300ms"'), tmp_path) as node, calling(node.url) as caller:
        caller.send(post(b"content-length: 10000\r\n", b""))
        answer, count = await dripped(caller, b"{" * 9_999)
        ended = await caller.answer()

    assert answer.status == 408
    assert 1 < count < 100
    assert ended is None


async def test_a_body_given_up_gives_its_room_back(upstream, tmp_path):
    settings = server(upstream, 'bodies_together = "4 KiB"\nbody_timeout = "1s"')
    async with running(settings, tmp_path) as node, calling(node.url) as stalled:
        stalled.send(post(b"content-length: 3500\r\n", b"x" * 3000))
        await until(lambda: node.admin._bodies._room_bytes < 2000)
        refused = await node.chat("y" * 3000)
        given_up = await stalled.answer()
        await until(lambda: node.admin._bodies._room_bytes == 4096)
        fine = await node.chat("y" * 3000)

    assert (refused.status, given_up.status, fine.status) == (503, 408, 200)


@pytest.mark.parametrize("times", [1, 2], ids=["after a new answer", "after a known answer"])
async def test_an_idle_connection_is_closed_without_a_word(upstream, tmp_path, times):
    async with running(server(upstream, 'keep_alive = "200ms"'), tmp_path) as node, calling(node.url) as caller:
        for _ in range(times):
            caller.send(chat("hello"))
            assert (await caller.answer()).status == 200
        ended = await caller.answer(within_s=10)

    assert ended is None


async def test_a_connection_is_idle_too_whose_body_came_after_the_answer(upstream, tmp_path):
    async with running(server(upstream, 'keep_alive = "200ms"'), tmp_path) as node, calling(node.url) as caller:
        caller.send(b"PUT /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n")
        refused = await caller.answer()
        caller.send(b"{}")
        ended = await caller.answer(within_s=10)

    assert refused.status == 405
    assert ended is None


async def test_a_refusal_before_the_body_was_asked_for_ends_the_connection(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node, calling(node.url) as caller:
        expects = b"expect: 100-continue\r\ncontent-length: 300\r\n\r\n"
        caller.send(b"PUT /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n" + expects)
        refused = await caller.answer()
        caller.send(chat("is this a body?"))
        ended = await caller.answer()

    assert refused.status == 405
    assert ended is None
    assert upstream.calls == []


async def test_a_head_that_stalls_behind_a_running_answer_is_told_so_after_it(upstream, tmp_path):
    gate = asyncio.Event()
    upstream.on("m", held_until(gate))
    async with running(server(upstream, 'head_timeout = "200ms"'), tmp_path) as node, calling(node.url) as caller:
        caller.send(chat("slow") + b"POST /v1/chat/comp")
        await upstream.called(1)
        early = asyncio.create_task(caller.answer())
        await asyncio.wait([early], timeout=0.6)
        assert not early.done()
        gate.set()
        answers = [await early, await caller.answer(), await caller.answer()]

    assert [a and a.status for a in answers] == [200, 408, None]


async def test_a_head_begun_behind_a_known_request_goes_on_with_whatever_comes(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node, calling(node.url) as caller:
        for _ in range(2):
            caller.send(chat("known"))
            assert (await caller.answer()).status == 200
        caller.send(chat("known") + b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nx: ")
        first = await caller.answer()
        caller.send(chat("known"))
        answers = [await caller.answer(), await caller.answer()]

    assert first.status == 200
    assert [a and a.status for a in answers] == [400, None]
    assert b"has 2" in answers[0].body


async def test_what_is_no_request_behind_a_running_one_is_refused_after_its_answer(upstream, tmp_path):
    gate = asyncio.Event()
    upstream.on("m", held_until(gate))
    async with running(in_front_of(upstream.url), tmp_path) as node, calling(node.url) as caller:
        caller.send(chat("one") + chat("two") + b"oops\r\n\r\n" + chat("three"))
        await upstream.called(1)
        gate.set()
        answers = [await caller.answer() for _ in range(4)]

    assert [a and a.status for a in answers] == [200, 200, 400, None]
    assert len(upstream.calls) == 2


async def test_a_broken_body_behind_a_running_request_is_refused_after_its_answer(upstream, tmp_path):
    gate = asyncio.Event()
    upstream.on("m", held_until(gate))
    async with running(in_front_of(upstream.url), tmp_path) as node, calling(node.url) as caller:
        caller.send(chat("one") + post(b"transfer-encoding: chunked\r\n", b"5\r\nhello\r\nz\r\n"))
        await upstream.called(1)
        gate.set()
        answers = [await caller.answer() for _ in range(3)]

    assert [a and a.status for a in answers] == [200, 400, None]
    assert len(upstream.calls) == 1


async def test_requests_sent_ahead_are_bounded(upstream, tmp_path):
    gate = asyncio.Event()
    upstream.on("m", held_until(gate))
    async with running(in_front_of(upstream.url), tmp_path) as node, calling(node.url) as caller:
        caller.send(chat("the first") + b"GET /-/health HTTP/1.1\r\nhost: localhost\r\n\r\n" * 1000)
        await upstream.called(1)
        gate.set()
        answers = []
        while (answer := await caller.answer()) is not None:
            answers.append(answer)

    assert [a.status for a in answers] == [200] * 129 + [503]
    assert b'"overloaded"' in answers[-1].body


def never_reads(url: str, sent: bytes) -> socket.socket:
    """A caller with the least room for what it is told."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(("127.0.0.1", int(url.rpartition(":")[2])))
    sock.sendall(sent)
    sock.setblocking(False)
    return sock


def is_connected(sock: socket.socket) -> bool:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == ESTABLISHED


def endless(sent_bytes: list[int]) -> Callable:
    """A stream of up to 256 MiB, that counts what was taken from it."""

    async def reply(call, writer, serial):
        await begin_stream(writer)
        event = b"data: " + b"x" * 65_536 + b"\n\n"
        for _ in range(4096):
            await send_chunk(writer, event)
            sent_bytes.append(len(event))

    return reply


async def test_a_caller_who_reads_nothing_is_dropped_and_the_origin_is_not_read_for_it_without_bound(
    upstream, tmp_path
):
    sent_bytes: list[int] = []
    upstream.on("m", endless(sent_bytes))
    async with running(server(upstream, 'write_timeout = "1s"'), tmp_path) as node:
        body = asking("much").replace(b"{", b'{"stream":true,', 1)
        sock = never_reads(node.url, post(b"content-length: %d\r\n" % len(body), body))
        await until(lambda: not is_connected(sock))
        await until(lambda: len(node.node.flights) == 0)
        stats = await node.stats()
        sock.close()

    assert upstream.calls[0].cut.is_set()
    assert sum(sent_bytes) < 40 * 2**20  # what can be shared, what is ahead, and what the kernel holds
    assert stats["ended"]["gone"] == 1


async def test_a_known_answer_that_nobody_takes_is_dropped_in_time(upstream, tmp_path):
    async def long(call, writer, serial):
        await whole(writer, b'{"choices": [], "x": "%b"}' % (b"x" * 900_000))

    upstream.on("/v1/classify", long)
    route = '[[routes]]\nname = "r"\nkind = "json"\npath = "/classify"\nupstream = "fake"\nrespect_upstream = false\n'
    async with running(server(upstream, 'write_timeout = "1s"') + route, tmp_path) as node:
        asked = b"POST /classify HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}"
        async with calling(node.url) as caller:
            for _ in range(2):
                caller.send(asked)
                told = await caller.answer()
        sock = never_reads(node.url, asked * 40)
        await until(lambda: not is_connected(sock))
        sock.close()
        fine = await node.send("POST", "/classify", b"{}")

    assert len(told.body) > 900_000
    assert "; hit" in told.headers["cache-status"]
    assert fine.is_hit


async def test_a_slow_but_steady_reader_gets_all_of_a_long_answer(upstream, tmp_path):
    body = b"x" * (12 * 2**20)

    async def long(call, writer, serial):
        await whole(writer, body, kind="text/plain")

    upstream.on("/v1/files", long)
    async with running(server(upstream, 'write_timeout = "500ms"'), tmp_path) as node:
        sock = never_reads(node.url, b"GET /v1/files HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        got, loop = 0, asyncio.get_running_loop()
        began_s, nothing = loop.time(), loop.create_future()
        while part := await loop.sock_recv(sock, 2**20):
            got += len(part)
            if got // 65_536 > (got - len(part)) // 65_536:
                await asyncio.wait([nothing], timeout=0.005)
        took_s = loop.time() - began_s
        sock.close()

    assert got > len(body)
    assert took_s > 0.5


async def test_a_stalled_reader_holds_up_those_with_whom_it_shares_a_flight_only_until_it_is_dropped(
    upstream, tmp_path
):
    total = 24 * 2**20

    async def long(call, writer, serial):
        await begin_stream(writer)
        for _ in range(total // 65_536):
            await send_chunk(writer, b"data: " + b"x" * 65_536 + b"\n\n")
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    upstream.on("m", long)
    async with running(server(upstream, 'write_timeout = "1s"'), tmp_path) as node:
        body = asking("much").replace(b"{", b'{"stream":true,', 1)
        sock = never_reads(node.url, post(b"content-length: %d\r\n" % len(body), body))
        await upstream.called(1)
        quick = await node.send("POST", "/v1/chat/completions", body)
        was_dropped = not is_connected(sock)
        sock.close()

    assert quick.body.count(b"x") >= total
    assert was_dropped
    assert len(upstream.calls) == 1


async def test_a_caller_that_shut_its_side_still_gets_what_is_known(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await node.chat("hello")
        async with calling(node.url) as caller:
            caller.send(chat("hello"))
            caller.writer.write_eof()
            answers = [await caller.answer(), await caller.answer()]
        async with calling(node.url) as caller:
            caller.send(b"GET /-/health HTTP/1.1\r\nhost: localhost\r\n\r\n")
            caller.writer.write_eof()
            health = [await caller.answer(), await caller.answer()]

    assert answers[0].status == health[0].status == 200
    assert answers[1] is health[1] is None


async def test_a_caller_that_shut_its_side_counts_as_gone_where_the_answer_takes_time(upstream, tmp_path):
    upstream.on("m", held_until(asyncio.Event()))
    async with running(in_front_of(upstream.url), tmp_path) as node, calling(node.url) as caller:
        caller.send(chat("slow"))
        await upstream.called(1)
        caller.writer.write_eof()
        ended = await caller.answer()
        await asyncio.wait_for(upstream.calls[0].cut.wait(), 10)

    assert ended is None


@pytest.mark.parametrize(
    "sent", [b"", b"POST / HT", post(b"content-length: 9\r\n", b"{")], ids=["silent", "head", "body"]
)
async def test_a_caller_that_shut_its_side_too_early_is_let_go_at_once(upstream, tmp_path, sent):
    async with running(in_front_of(upstream.url), tmp_path) as node, calling(node.url) as caller:
        caller.send(sent)
        caller.writer.write_eof()
        ended = await caller.answer(within_s=5)

    assert ended is None


async def test_when_all_connections_are_busy_a_newcomer_is_told_to_come_later(upstream, tmp_path):
    gate = asyncio.Event()
    upstream.on("m", held_until(gate))
    async with running(server(upstream, "connections = 3"), tmp_path) as node:
        busy = [asyncio.create_task(node.chat(f"slow {i}")) for i in range(3)]
        await upstream.called(3)
        async with calling(node.url) as newcomer:
            newcomer.send(chat("hello"))
            refused = await newcomer.answer()
            ended = await newcomer.answer()
        gate.set()
        served = await asyncio.gather(*busy)

    assert refused.status == 503
    assert refused.headers["retry-after"] == "1"
    assert b"server.connections" in refused.body
    assert ended is None
    assert [a.status for a in served] == [200, 200, 200]


@pytest.mark.parametrize("sent", [b"", b"POST / HTTP/1.1\r\nx: "], ids=["silent", "within a head"])
async def test_silent_connections_make_room_for_who_asks(upstream, tmp_path, sent):
    settings = server(upstream, 'connections = 20\nhead_timeout = "600s"')
    async with running(settings, tmp_path) as node:
        silent = [await asyncio.open_connection("127.0.0.1", int(node.url.rpartition(":")[2])) for _ in range(60)]
        for _, writer in silent:
            writer.write(sent)
        statuses = []
        while 200 not in statuses:
            async with calling(node.url) as newcomer:
                newcomer.send(chat("hello", b"connection: close\r\n"))
                answer = await newcomer.answer()
                statuses.append(answer and answer.status)
        leaving = [asyncio.create_task(reader.read()) for reader, _ in silent]
        await until(lambda: sum(not task.done() for task in leaving) <= 20)
        for _, writer in silent:
            writer.transport.abort()
        await asyncio.gather(*leaving, return_exceptions=True)

    assert set(statuses) <= {200, 503}


def test_what_is_asked_here_is_a_chat():
    assert asking("hello").decode() == str(chat_body("hello")).replace("'", '"')
