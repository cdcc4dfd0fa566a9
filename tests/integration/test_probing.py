"""`foretold deploy cloudflare try`, before something that answers as an edge does, or doesn't."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from foretold.deploy.probing import TRIES, Seen, chat, probe
from foretold.errors import DeployError, DeployUnreachable
from tests.e2e.program import run

MISS = "Foretold; fwd=uri-miss; stored, Foretold-Edge; fwd=uri-miss; stored"
HIT = 'Foretold-Edge; hit; ttl=86399; detail="a, hit"'


@asynccontextmanager
async def _edge(answers: Callable[[int, bytes], web.Response]) -> AsyncIterator[str]:
    """Its address; `answers` gets the number of the call and its body."""
    calls = 0

    async def answer(request: web.Request) -> web.Response:
        nonlocal calls
        calls += 1
        return answers(calls, await request.read())

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def _says(*cache_statuses: str) -> Callable[[int, bytes], web.Response]:
    """These one after the other, the last for ever."""

    def answer(number: int, body: bytes) -> web.Response:
        said = cache_statuses[min(number, len(cache_statuses)) - 1]
        return web.json_response({}, headers={"cache-status": said} if said else {})

    return answer


async def _probe(url: str) -> list[Seen]:
    def in_thread() -> list[Seen]:
        return probe(url, chat("m", "a new one"), key="", pause=lambda seconds: None)

    return await asyncio.to_thread(in_thread)


async def test_a_miss_and_then_a_hit_is_what_an_edge_shows():
    async with _edge(_says(MISS, HIT)) as url:
        assert [seen.how for seen in await _probe(url)] == ["miss", "hit"]


async def test_a_record_that_is_written_behind_the_answer_is_waited_for():
    async with _edge(_says(MISS, MISS, MISS, HIT)) as url:
        assert [seen.how for seen in await _probe(url)] == ["miss", "miss", "miss", "hit"]


async def test_without_any_hit_it_ends():
    async with _edge(_says(MISS)) as url:
        assert [seen.how for seen in await _probe(url)] == ["miss"] * (TRIES + 1)


@pytest.mark.parametrize("said", ["", "cloudflare; hit", "Foretold; hit", "Other-Foretold-Edge; hit"])
async def test_an_answer_of_something_else_is_an_error(said):
    async with _edge(_says(said)) as url:
        with pytest.raises(DeployError, match="something else than the Worker"):
            await _probe(url)


async def test_an_error_of_the_edge_is_told_in_its_words():
    def refuse(number: int, body: bytes) -> web.Response:
        told = json.dumps({"error": {"message": "no such model"}})
        return web.Response(status=404, text=told, headers={"cache-status": "Foretold-Edge; fwd=bypass"})

    async with _edge(refuse) as url:
        with pytest.raises(DeployError, match=r"answered 404 .*no such model"):
            await _probe(url)


async def test_nobody_there_is_told_with_what_may_be_missing():
    with pytest.raises(DeployUnreachable, match="proxied DNS record"):
        await _probe("http://127.0.0.1:9")


async def test_each_run_asks_a_question_of_its_own_with_the_key(tmp_path):
    asked = []

    def answer(number: int, body: bytes) -> web.Response:
        asked.append(json.loads(body)["messages"][0]["content"])
        return _says(MISS, HIT)((number - 1) % 2 + 1, body)

    async with _edge(answer) as url:
        first = await run("deploy", "cloudflare", "try", "m", "--url", url, home=tmp_path)
        second = await run("deploy", "cloudflare", "try", "m", "--url", url, "--json", home=tmp_path)

    assert (first.code, second.code) == (0, 0)
    assert [line.split("\t")[0] for line in first.out.splitlines()] == ["MISS", "HIT"]
    assert [seen["how"] for seen in second.json] == ["miss", "hit"]
    assert asked[0] == asked[1] != asked[2] == asked[3]
