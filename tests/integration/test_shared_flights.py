"""Two nodes of one data folder that share flights (rule L2).  Here in one process, whose locks are as those of two."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from foretold.datafolder import DataFolder
from foretold.generations import FileGenerations
from foretold.leases.frames import MAGIC
from foretold.leases.locks import Locks, Slot, place_of
from foretold.leases.shared import SharedLease
from foretold.leases.sockets import Sockets
from tests.fakes.upstream import begin_stream, chat, chunks_of, send_chunk, whole
from tests.running import Client, in_front_of, running
from tests.waiting import until


def begun(folder: Path) -> tuple[Path, Path]:
    """Two data folders that are as one, but for the store: LMDB opens a file once in a process."""
    one, other = folder / "one", folder / "other"
    data = DataFolder(one)
    FileGenerations(data.generations, data.secret())
    data.flights.mkdir(mode=0o700)
    other.mkdir()
    for name in ("secret", "generations.json"):
        shutil.copy(one / name, other / name)
    (other / "flights").symlink_to(data.flights)
    return one, other


@asynccontextmanager
async def two(folder: Path, settings: str) -> AsyncIterator[tuple[Client, Client]]:
    here, there = begun(folder)
    async with (
        running(settings, here, shares_flights=True) as one,
        running(settings, there, shares_flights=True) as other,
    ):
        yield one, other


def lease_of(client: Client) -> SharedLease:
    lease = client.node.lease
    assert isinstance(lease, SharedLease)
    return lease


class Gated:
    """A reply that begins, waits, and goes on when told."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()

    async def streamed(self, call, writer, serial):
        events = chunks_of(chat(call.json, "some words to say"), usage=True)
        await begin_stream(writer)
        for event in events[:2]:
            await send_chunk(writer, event)
        await self.gate.wait()
        for event in events[2:]:
            await send_chunk(writer, event)
        writer.write(b"0\r\n\r\n")

    async def whole(self, call, writer, serial):
        await self.gate.wait()
        await whole(writer, json.dumps(chat(call.json, f"call {serial}")).encode())


async def followed(leader: Client) -> None:
    """Returns once the other process is aboard the flight that one caller of the leader began."""
    await until(lambda: any(len(flight.riders) == 2 for flight in leader.node.flights._all))


@pytest.mark.parametrize("streamed", [False, True])
async def test_one_call_serves_the_callers_of_both(upstream, tmp_path, streamed):
    gated = Gated()
    upstream.on("m", gated.streamed if streamed else gated.whole)
    async with two(tmp_path, in_front_of(upstream.url)) as (one, other):
        first = asyncio.create_task(one.chat("hello", stream=streamed))
        await upstream.called(1)
        others = [asyncio.create_task(other.chat("hello", stream=streamed)) for _ in range(3)]
        await followed(one)
        gated.gate.set()
        told = await asyncio.gather(first, *others)

    assert len(upstream.calls) == 1
    assert len({answer.text for answer in told}) == 1
    assert [answer.cache_status.count("collapsed") for answer in told] == [0, 1, 1, 1]


async def test_whole_and_streamed_callers_share_a_call_too(upstream, tmp_path):
    gated = Gated()
    upstream.on("m", gated.streamed)
    async with two(tmp_path, in_front_of(upstream.url)) as (one, other):
        first = asyncio.create_task(one.chat("hello", stream=True))
        await upstream.called(1)
        second = asyncio.create_task(other.chat("hello"))
        await followed(one)
        gated.gate.set()
        told = await asyncio.gather(first, second)

    assert len(upstream.calls) == 1
    assert told[0].text == told[1].text == "some words to say"


async def test_a_long_answer_comes_through_byte_for_byte(upstream, tmp_path):
    gate = asyncio.Event()

    async def long(call, writer, serial):
        await gate.wait()
        await whole(writer, json.dumps(chat(call.json, "0123456789" * 300_000)).encode())

    upstream.on("m", long)
    async with two(tmp_path, in_front_of(upstream.url)) as (one, other):
        first = asyncio.create_task(one.chat("hello"))
        await upstream.called(1)
        second = asyncio.create_task(other.chat("hello"))
        await followed(one)
        gate.set()
        told = await asyncio.gather(first, second)

    assert told[0].body == told[1].body
    assert len(told[1].text) == 3_000_000
    assert len(upstream.calls) == 1


async def test_a_follower_gets_what_has_come_before_the_rest_comes(upstream, tmp_path):
    gated = Gated()
    upstream.on("m", gated.streamed)
    async with two(tmp_path, in_front_of(upstream.url)) as (one, other):
        first = asyncio.create_task(one.chat("hello", stream=True))
        await upstream.called(1)
        async with other._session.post(
            other.url + "/v1/chat/completions",
            json={"model": "m", "stream": True, "messages": [{"role": "user", "content": "hello"}]},
        ) as response:
            began = await response.content.readuntil(b"\n\n")
            gated.gate.set()
            rest = await response.content.read()
        await first

    assert began.startswith(b"data: ")
    assert rest.endswith(b"data: [DONE]\n\n")
    assert len(upstream.calls) == 1


async def test_what_one_kept_is_a_hit_in_the_memory_of_the_other(upstream, tmp_path):
    gated = Gated()
    upstream.on("m", gated.whole)
    async with two(tmp_path, in_front_of(upstream.url)) as (one, other):
        first = asyncio.create_task(one.chat("hello"))
        await upstream.called(1)
        second = asyncio.create_task(other.chat("hello"))
        await followed(one)
        gated.gate.set()
        told = await first, await second
        again = await other.chat("hello")
        counted = await other.stats()

    assert again.is_hit
    assert again.body == told[0].body == told[1].body
    assert counted["tiers"][0]["hits"] == 1
    assert counted["tiers"][1]["writes"] == 0


async def test_an_error_of_the_origin_is_told_to_both(upstream, tmp_path):
    gate = asyncio.Event()

    async def teapot(call, writer, serial):
        await gate.wait()
        await whole(writer, b'{"error": {"message": "no"}}', status=418)

    upstream.on("m", teapot)
    async with two(tmp_path, in_front_of(upstream.url)) as (one, other):
        first = asyncio.create_task(one.chat("hello"))
        await upstream.called(1)
        second = asyncio.create_task(other.chat("hello"))
        await followed(one)
        gate.set()
        told = await asyncio.gather(first, second)

    assert [answer.status for answer in told] == [418, 418]
    assert len(upstream.calls) == 1


async def test_an_origin_that_cannot_be_reached_is_the_same_error_in_both(tmp_path):
    settings = '[upstreams.none]\nurl = "http://127.0.0.1:9/v1"\nretries = 0\n'
    async with two(tmp_path, settings) as (one, other):
        told = await asyncio.gather(*(client.chat("hello") for client in (one, other, one, other)))

    assert {answer.status for answer in told} == {502}
    assert {answer.json["error"]["code"] for answer in told} == {"origin_unreachable"}


async def test_a_follower_keeps_a_call_alive_whose_first_caller_left(upstream, tmp_path):
    gated = Gated()
    upstream.on("m", gated.whole)
    async with two(tmp_path, in_front_of(upstream.url)) as (one, other):
        first = asyncio.create_task(one.chat("hello"))
        await upstream.called(1)
        second = asyncio.create_task(other.chat("hello"))
        await followed(one)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        gated.gate.set()
        told = await second

    assert told.status == 200
    assert len(upstream.calls) == 1


async def test_a_call_ends_when_the_last_caller_of_all_processes_has_left(upstream, tmp_path):
    gated = Gated()
    upstream.on("m", gated.whole)
    async with two(tmp_path, in_front_of(upstream.url)) as (one, other):
        first = asyncio.create_task(one.chat("hello"))
        await upstream.called(1)
        second = asyncio.create_task(other.chat("hello"))
        await followed(one)
        for asking in (first, second):
            asking.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        await asyncio.wait_for(upstream.calls[0].cut.wait(), 20)

    assert len(upstream.calls) == 1


async def test_a_purge_by_key_takes_the_record_out_of_the_others_memory(upstream, tmp_path):
    async with two(tmp_path, in_front_of(upstream.url)) as (one, other):
        asked = await other.chat("hello")
        key = asked.cache_status.partition('key="')[2][:64]
        before = await other.chat("hello")
        await one.purge(key=key)
        after = await other.chat("hello")

    assert before.is_hit
    assert not after.is_hit


async def test_a_call_that_began_before_a_purge_is_not_joined_from_elsewhere(upstream, tmp_path):
    gated = Gated()
    upstream.on("m", gated.whole)
    async with two(tmp_path, in_front_of(upstream.url)) as (one, other):
        first = asyncio.create_task(one.chat("hello"))
        await upstream.called(1)
        await other.purge(model="m")
        second = asyncio.create_task(other.chat("hello"))
        await upstream.called(2)
        gated.gate.set()
        told = await asyncio.gather(first, second)

    assert [answer.text for answer in told] == ["call 1", "call 2"]


async def test_a_leader_that_says_nothing_is_waited_for_no_longer(upstream, tmp_path):
    gated = Gated()
    upstream.on("m", gated.whole)
    async with two(tmp_path, in_front_of(upstream.url)) as (one, other):
        first = asyncio.create_task(one.chat("hello"))
        await upstream.called(1)
        lease = lease_of(one)
        assert lease._server is not None
        lease_of(other)._silence_s = 0.05
        lease._server.close()  # and a socket takes its place that takes connections and answers nobody
        listening = lease._sockets.listen(lease.slot)
        second = asyncio.create_task(other.chat("hello"))
        await upstream.called(2)
        listening.close()
        gated.gate.set()
        told = await asyncio.gather(first, second)

    assert sorted(answer.text for answer in told) == ["call 1", "call 2"]
    assert not any("collapsed" in answer.cache_status for answer in told)


async def test_a_leader_that_closes_is_followed_by_another(upstream, tmp_path):
    gated = Gated()
    upstream.on("m", gated.whole)
    async with two(tmp_path, in_front_of(upstream.url)) as (one, other):
        first = asyncio.create_task(one.chat("hello"))
        await upstream.called(1)
        others = [asyncio.create_task(other.chat("hello")) for _ in range(5)]
        await followed(one)
        await one.node.flights.close()
        await one.node.lease.close()
        await upstream.called(2)
        gated.gate.set()
        told = await asyncio.gather(*others)
        await first

    assert [answer.text for answer in told] == ["call 2"] * 5
    assert len(upstream.calls) == 2


async def test_keys_that_share_a_place_are_never_mixed(upstream, tmp_path, monkeypatch):
    monkeypatch.setattr("foretold.leases.shared.place_of", lambda key: 0)
    async with two(tmp_path, in_front_of(upstream.url)) as (one, other):
        told = await asyncio.gather(*((one if i % 2 else other).chat(f"question {i}") for i in range(20)))

    assert all(repr(f"question {i}") in answer.text for i, answer in enumerate(told))
    assert len(upstream.calls) == 20


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET / HTTP/1.1\r\n\r\n", MAGIC + b"\xff\xff\xff\xff", MAGIC + b"\0\0\0\1\xc1", b"FTL\x02" + b"\0\0\0\0"],
    ids=["nothing", "http", "too long", "no message", "another version"],
)
async def test_whatever_is_no_question_ends_the_connection(upstream, tmp_path, sent):
    async with two(tmp_path, in_front_of(upstream.url)) as (one, other):
        sock = lease_of(other)._sockets.connect(lease_of(one).slot)
        reader, writer = await asyncio.open_unix_connection(sock=sock)
        writer.write(sent)
        writer.write_eof()
        told = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        answer = await one.chat("hello")

    assert told == b""
    assert answer.status == 200


async def test_nothing_is_left_behind(upstream, tmp_path):
    async with two(tmp_path, in_front_of(upstream.url)) as (one, other):
        await asyncio.gather(one.chat("hello"), other.chat("hello"))

    assert not list((tmp_path / "one" / "flights").glob("*.sock"))
    assert (tmp_path / "one" / "flights").stat().st_mode & 0o777 == 0o700


async def test_a_folder_with_a_long_name_has_sockets_too(upstream, tmp_path):
    folder = tmp_path / ("a" * 100) / ("b" * 100)
    folder.mkdir(parents=True)
    gated = Gated()
    upstream.on("m", gated.whole)
    async with two(folder, in_front_of(upstream.url)) as (one, other):
        first = asyncio.create_task(one.chat("hello"))
        await upstream.called(1)
        second = asyncio.create_task(other.chat("hello"))
        await followed(one)
        gated.gate.set()
        await asyncio.gather(first, second)

    assert len(upstream.calls) == 1


async def test_a_leader_that_is_gone_but_for_its_lock_is_waited_for_and_one_call_serves_all(upstream, tmp_path):
    here, _ = begun(tmp_path)
    dies = asyncio.Event()

    async def leads(reader, writer):
        await dies.wait()
        writer.close()

    async with running(in_front_of(upstream.url), here, shares_flights=True) as node:
        first = await node.chat("hello")
        key = first.cache_status.split('key="')[1][:64]
        await node.node.forget(key)
        slot, sockets = Slot(here / "flights"), Sockets(here / "flights")
        locks = Locks(here / "flights", slot.number)
        assert locks.take(place_of(key)) is None
        leader = await asyncio.start_unix_server(leads, sock=sockets.listen(slot.number))

        asking = [asyncio.create_task(node.chat("hello")) for _ in range(5)]
        await until(lambda: any(len(flight.riders) == 5 for flight in node.node.flights._all))
        leader.close()
        dies.set()
        for _ in range(100):  # turns of the loop, in which who doesn't wait has taken all of his own
            await asyncio.sleep(0)
        locks.close()
        answered = await asyncio.gather(*asking)
        slot.close()
        sockets.close()

    assert {one.status for one in answered} == {200}
    assert len(upstream.calls) == 2
