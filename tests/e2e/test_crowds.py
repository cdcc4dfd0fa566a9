"""Thousands of connections that ask nothing, or for ever: those who ask are served meanwhile, and they end in time."""

from __future__ import annotations

import asyncio
import http.client
import json
import resource
import statistics
import time
from collections.abc import Iterator

import pytest

from tests.asking import chat_body
from tests.e2e.program import Node, serving
from tests.fakes.upstream import FakeUpstream

CONNECTIONS = 5000
TIMEOUT_S = 8
SETTINGS = """
[server]
connections = 6000
head_timeout = "{timeout}s"
body_timeout = "{timeout}s"
[upstreams.fake]
url = "{url}"
[[tiers]]
store = "memory"
limit = "16 MiB"
"""

HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
KINDS = {
    "silent": b"",
    "dripping a head": HEAD + b"x: ",
    "dripping a body": HEAD + b"content-length: 10000\r\n\r\n{",
}


@pytest.fixture
def many_files() -> Iterator[None]:
    """Room for the sockets on both sides; whoever has less sees why this can't be tested."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * CONNECTIONS
    assert hard == resource.RLIM_INFINITY or hard >= needed, f"this test needs `ulimit -Hn {needed}`, here are {hard}"
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Sluggish(asyncio.Protocol):
    """A caller that sends the beginning of a request and then a byte now and then."""

    def __init__(self, begins: bytes):
        self.begins = begins
        self.told = b""
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self.begins)

    def drip(self) -> None:
        if self.begins and not self.transport.is_closing():
            self.transport.write(b"a")

    def data_received(self, data: bytes) -> None:
        self.told += data

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(time.monotonic())


async def test_five_thousand_who_never_finish_delay_nobody_and_are_gone_in_time(tmp_path, many_files):
    async with (
        FakeUpstream() as upstream,
        serving(tmp_path, SETTINGS.format(timeout=TIMEOUT_S, url=upstream.url)) as node,
    ):
        await node.post("/v1/chat/completions", chat_body("hello"))
        quiet_s = await asyncio.to_thread(asked_s, node, 300)
        crowd = await sluggish(node, CONNECTIONS)
        dripping = asyncio.create_task(drip(crowd))
        crowded_s = await asyncio.to_thread(asked_s, node, 300)
        here = sum(not caller.ended.done() for caller in crowd)
        began_s = time.monotonic()
        async with asyncio.timeout(TIMEOUT_S + 20):
            ended_s = await asyncio.gather(*(caller.ended for caller in crowd))
        dripping.cancel()

    print(
        "FIGURES",
        here,
        statistics.median(quiet_s),
        statistics.median(crowded_s),
        max(crowded_s),
        max(ended_s) - began_s,
    )
    assert here > CONNECTIONS * 0.9
    assert statistics.median(crowded_s) - statistics.median(quiet_s) <= 0.05
    assert max(ended_s) - began_s < TIMEOUT_S + 5
    assert {caller.told.split(b"\r\n")[0] for caller in crowd} == {b"HTTP/1.1 408 Request Timeout"}


async def sluggish(node: Node, count: int) -> list[Sluggish]:
    loop, port = asyncio.get_running_loop(), int(node.url.rpartition(":")[2])
    kinds = list(KINDS.values())
    made: list[Sluggish] = []
    while len(made) < count:
        opening = (
            loop.create_connection(lambda i=i: Sluggish(kinds[i % len(kinds)]), "127.0.0.1", port)
            for i in range(len(made), min(len(made) + 250, count))
        )
        made += [protocol for _, protocol in await asyncio.gather(*opening)]
    return made


async def drip(crowd: list[Sluggish]) -> None:
    while True:
        for at, caller in enumerate(crowd):
            caller.drip()
            if at % 50 == 0:
                await asyncio.sleep(0.01)


def asked_s(node: Node, times: int) -> list[float]:
    """How long a known answer took each time, on a connection of its own now and then."""
    took = []
    body = json.dumps(chat_body("hello"))
    for at in range(times):
        if at % 10 == 0:
            connection = http.client.HTTPConnection("127.0.0.1", int(node.url.rpartition(":")[2]), timeout=20)
        began_s = time.monotonic()
        connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        took.append(time.monotonic() - began_s)
        assert answer.status == 200
        if at % 10 == 9:
            connection.close()
    return took
