"""What is answered from the protocol is what the application answers, byte for byte."""

from __future__ import annotations

import json
import time

import pytest

from foretold.outcome import Ended
from foretold.server import peek
from tests.clock import Clock
from tests.fakes.upstream import FakeUpstream, chat, chunks_of, text_for, whole
from tests.integration.odd_requests import Connection, connections
from tests.integration.peeking import side
from tests.running import in_front_of
from tests.waiting import until

SETTINGS = """
[server]
allowed_origins = ["https://app.example"]
[[tiers]]
store = "memory"
limit = "64 MiB"
[[routes]]
name = "items"
kind = "get"
path = "/items/*"
upstream = "fake"
respect_upstream = false
[[routes]]
name = "rest"
models = ["*"]
upstream = "fake"
"""


async def broken(call, writer, number):
    await whole(writer, b'{"error":{"message":"no"}}', status=400)


async def item(call, writer, number):
    await whole(writer, call.target.encode())


async def at_once(call, writer, number):
    """A good answer in one write: how a live stream is cut is a matter of chance."""
    asked = call.json
    told = chat(asked, text_for(asked, number))
    if not asked.get("stream"):
        await whole(writer, json.dumps(told).encode())
        return
    usage = (asked.get("stream_options") or {}).get("include_usage", False)
    await whole(writer, b"".join(chunks_of(told, usage=usage)), kind="text/event-stream")


def told_to_answer(upstream: FakeUpstream) -> None:
    upstream.on("broken", broken)
    upstream.on("", item)
    for name in ("m", "other"):
        upstream.on(name, at_once)


def known(side_) -> dict[str, object]:
    """What a side counted, but for times."""
    counters = side_.counters
    return {
        "received": counters.received,
        "how": {how: counts.count for how, counts in counters.how.items()},
        "bytes": {how: counts.body_bytes for how, counts in counters.how.items()},
        "ended": counters.ended,
        "routes": counters.routes,
        "saved": counters.saved_ms > 0,
    }


@pytest.mark.parametrize("seed", range(4))
async def test_peek_and_application_give_equal_bytes_and_equal_counts(tmp_path, monkeypatch, seed):
    hits = 0
    wrote = peek.Peek._answer

    def counted(self, *args):
        nonlocal hits
        answered = wrote(self, *args)
        hits += answered
        return answered

    monkeypatch.setattr(peek.Peek, "_answer", counted)
    clock = Clock()
    async with FakeUpstream() as one, FakeUpstream() as other:
        for upstream in (one, other):
            told_to_answer(upstream)
        settings = [in_front_of(upstream.url, SETTINGS) for upstream in (one, other)]
        async with (
            side(settings[0], tmp_path / "peeks", peeks=True, now_ms=clock) as peeks,
            side(settings[1], tmp_path / "asks", peeks=False, now_ms=clock) as asks,
        ):
            for connection in connections(seed, 2500):
                clock.forward(s=0.7)
                answers = [await s.says(connection) for s in (peeks, asks)]

                assert answers[0] == answers[1], connection
            assert known(peeks) == known(asks)
            assert [c.body for c in one.calls] == [c.body for c in other.calls]

    assert hits > 200


async def known_request(side_) -> bytes:
    """A request that the next connection answers from the protocol."""
    body = b'{"model":"m","messages":[{"role":"user","content":"hello"}]}'
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    for _ in range(2):
        await side_.says(Connection((head + body,), (), leaves=False))
    return head + body


async def test_a_known_request_is_answered_before_any_task_is_made(upstream, tmp_path):
    async with side(in_front_of(upstream.url), tmp_path, peeks=True, now_ms=Clock()) as peeks:
        request = await known_request(peeks)
        line, protocol = peeks.connect()

        protocol.data_received(request)

        assert line.written.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"cache-status: Foretold; hit; " in line.written
        assert not peeks.tasks


async def test_a_body_that_comes_after_its_head_is_waited_for_but_not_for_ever(upstream, tmp_path):
    settings = in_front_of(upstream.url, '[server]\nbody_timeout = "0.1s"\nbodies_together = "100 KiB"\n')
    async with side(settings, tmp_path, peeks=True, now_ms=Clock()) as peeks:
        request = await known_request(peeks)
        room = peeks.live.app.front.bodies._room_bytes
        line, protocol = peeks.connect()

        protocol.data_received(request[:-1])
        held = room - peeks.live.app.front.bodies._room_bytes
        await until(lambda: line.has_ended)
        protocol.connection_lost(None)
        await peeks.all_answered()

        assert held == len(request)
        assert line.written.startswith(b"HTTP/1.1 408 ")
        assert peeks.live.app.front.bodies._room_bytes == room
        assert peeks.counters.ended[Ended.GONE] == 1


async def test_a_known_request_that_has_begun_may_end_while_the_node_stops(upstream, tmp_path):
    async with side(in_front_of(upstream.url), tmp_path, peeks=True, now_ms=Clock()) as peeks:
        request = await known_request(peeks)
        line, protocol = peeks.connect()
        protocol.data_received(request[:-1])

        protocol.shutdown()
        protocol.data_received(request[-1:])
        await peeks.all_answered()

        assert line.written.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"connection: close\r\n" in line.written


async def test_a_caller_who_leaves_before_its_body_is_whole_is_counted_and_forgotten(upstream, tmp_path):
    async with side(in_front_of(upstream.url), tmp_path, peeks=True, now_ms=Clock()) as peeks:
        request = await known_request(peeks)
        room = peeks.live.app.front.bodies._room_bytes

        await peeks.says(Connection((), (request[:-1],), leaves=True))

        assert peeks.counters.ended[Ended.GONE] == 1
        assert peeks.live.app.front.bodies._room_bytes == room


async def test_a_connection_that_only_had_hits_is_closed_when_it_has_been_idle(upstream, tmp_path):
    settings = in_front_of(upstream.url, '[server]\nkeep_alive = "1s"\nhead_timeout = "0.1s"\n')
    async with side(settings, tmp_path, peeks=True, now_ms=Clock()) as peeks:
        request = await known_request(peeks)
        line, protocol = peeks.connect()
        began = time.monotonic()

        protocol.data_received(request)
        await until(lambda: line.is_closed)

        assert line.written.startswith(b"HTTP/1.1 200 OK\r\n")
        assert time.monotonic() - began >= 0.9


async def test_who_reads_slowly_gets_no_more_until_it_has_read(upstream, tmp_path):
    async with side(in_front_of(upstream.url), tmp_path, peeks=True, now_ms=Clock()) as peeks:
        request = await known_request(peeks)
        line, protocol = peeks.connect()
        protocol.pause_writing()

        protocol.data_received(request)

        assert not line.written
        protocol.resume_writing()
        await peeks.all_answered()
        assert b"cache-status: Foretold; hit; " in line.written


async def test_a_head_of_another_length_is_known_and_one_beyond_the_limit_is_not(upstream, tmp_path):
    settings = in_front_of(upstream.url, '[server]\nbody_limit = "1 KiB"\n')
    async with side(settings, tmp_path, peeks=True, now_ms=Clock()) as peeks:
        request = await known_request(peeks)
        head = request.partition(b"\r\n\r\n")[0]
        longer = request.replace(b"hello", b"hello again").replace(b"Content-Length: 60", b"Content-Length: 66")
        too_long = head.replace(b"Content-Length: 60", b"Content-Length: 2000") + b"\r\n\r\n" + b"x" * 2000
        line, protocol = peeks.connect()

        protocol.data_received(longer)
        await peeks.all_answered()
        protocol.data_received(longer)
        answered_at_once = line.written.count(b"Foretold; hit")
        refused, _ = await peeks.says(Connection((too_long,), (), leaves=False))

        assert b"Content-Length: 60" in head
        assert answered_at_once == 1
        assert refused.startswith(b"HTTP/1.1 413 ")
