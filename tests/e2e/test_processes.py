"""Starting, stopping, and what a node leaves behind."""

from __future__ import annotations

import asyncio
import os
import signal
import socket

import aiohttp
import pytest

from tests.asking import chat_body
from tests.e2e.program import run, serving
from tests.fakes.upstream import begin_stream, chat, chunks_of, send_chunk
from tests.waiting import until


def settings_for(url: str) -> str:
    return f'[upstreams.fake]\nurl = "{url}"\n'


async def test_a_taken_port_names_its_holder_and_ends_with_7(tmp_path):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        ended = await run("serve", "--port", str(port), home=tmp_path)

    assert ended.code == 7
    assert f"port {port} on 127.0.0.1 is taken by `" in ended.err
    assert f"(pid {os.getpid()})" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_a_running_answer_may_end_before_the_node_stops(upstream, tmp_path, number, code):
    gate = asyncio.Event()

    async def slow(call, writer, serial):
        events = chunks_of(chat(call.json, "some words"), usage=False)
        await begin_stream(writer)
        await send_chunk(writer, events[0])
        await gate.wait()
        for event in events[1:]:
            await send_chunk(writer, event)
        writer.write(b"0\r\n\r\n")

    upstream.on("m", slow)
    async with serving(tmp_path, settings_for(upstream.url)) as node:
        asking = asyncio.create_task(node.post("/v1/chat/completions", chat_body("hello", stream=True)))
        await upstream.called(1)
        stopping = asyncio.create_task(node.stop(number))
        await asyncio.sleep(0)
        gate.set()
        status, _, body = await asking
        ended_with = await stopping

    assert status == 200
    assert body.endswith(b"data: [DONE]\n\n")
    assert ended_with == code


async def test_a_second_signal_stops_at_once(upstream, tmp_path):
    async def never(call, writer, serial):
        await call.cut.wait()

    upstream.on("m", never)
    async with serving(tmp_path, settings_for(upstream.url)) as node:
        asking = asyncio.create_task(node.post("/v1/chat/completions", chat_body("hello")))
        await upstream.called(1)
        node.process.send_signal(signal.SIGINT)
        await until(lambda: not _listens(node.url))
        code = await node.stop(signal.SIGINT)
        told = (await asyncio.gather(asking, return_exceptions=True))[0]

    assert code == 130
    assert isinstance(told, aiohttp.ClientError) or told[0] >= 500


def _listens(url: str) -> bool:
    try:
        socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=1).close()
    except OSError:
        return False
    return True


async def test_a_killed_node_keeps_every_answer_it_had_kept(upstream, tmp_path):
    async with serving(tmp_path, settings_for(upstream.url)) as node:
        for i in range(20):
            await node.post("/v1/chat/completions", chat_body(f"question {i}"))
        await node.written(20)
        node.process.kill()
        await node.process.wait()
    async with serving(tmp_path, settings_for(upstream.url)) as node:
        hits = [
            "; hit" in (await node.post("/v1/chat/completions", chat_body(f"question {i}")))[1]["cache-status"]
            for i in range(20)
        ]

    assert hits == [True] * 20
    assert len(upstream.calls) == 20


async def test_a_node_whose_store_was_damaged_starts_sets_it_aside_and_keeps_answers_again(upstream, tmp_path):
    async with serving(tmp_path, settings_for(upstream.url)) as node:
        await node.post("/v1/chat/completions", chat_body("hello"))
        await node.written(1)
    data = tmp_path / "answers" / "data.mdb"
    os.truncate(data, 9000)
    async with serving(tmp_path, settings_for(upstream.url)) as node:
        _, first, _ = await node.post("/v1/chat/completions", chat_body("hello"))
        await node.written(1)
        node.process.kill()
        await node.process.wait()
    async with serving(tmp_path, settings_for(upstream.url)) as node:
        _, second, _ = await node.post("/v1/chat/completions", chat_body("hello"))

    assert "; hit" not in first["cache-status"]
    assert "; hit" in second["cache-status"]
    assert [path.name.partition("-")[0] for path in tmp_path.glob("answers.*")] == ["answers.damaged"]


async def test_settings_that_open_a_node_without_keys_are_refused(tmp_path):
    ended = await run("serve", "--host", "0.0.0.0", "--port", "0", home=tmp_path)

    assert ended.code == 3
    assert "server.open" in ended.err


async def test_two_nodes_of_one_data_folder_share_answers(upstream, tmp_path):
    async with (
        serving(tmp_path, settings_for(upstream.url)) as one,
        serving(tmp_path, settings_for(upstream.url)) as other,
    ):
        await one.post("/v1/chat/completions", chat_body("hello"))
        await one.written(1)
        _, headers, _ = await other.post("/v1/chat/completions", chat_body("hello"))

    assert "; hit" in headers["cache-status"]
