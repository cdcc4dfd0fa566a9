"""Embeddings asked of two nodes that share flights: what one fetches, the other gets in with (rules P5, L2)."""

from __future__ import annotations

import asyncio

import pytest

from tests.fakes.embeddings import embed, embed_once
from tests.fakes.upstream import whole
from tests.fakes.vectors import embeddings
from tests.integration.test_embeddings import asking, embedded
from tests.integration.test_shared_flights import lease_of, two
from tests.running import in_front_of
from tests.waiting import until


async def test_inputs_that_another_process_fetches_are_not_asked_again(upstream, tmp_path):
    may_go_on = asyncio.Event()
    upstream.on("m", embed_once(may_go_on))
    async with two(tmp_path, in_front_of(upstream.url)) as (one, other):
        first = asyncio.create_task(embedded(one, ["a", "b"]))
        await upstream.called(1)
        second = asyncio.create_task(embedded(other, ["b", "c", "a"]))
        await upstream.called(2)
        await until(lambda: lease_of(other).following == 2)
        may_go_on.set()
        answers = await asyncio.gather(first, second)

    assert [call.json["input"] for call in upstream.calls] == [["a", "b"], ["c"]]
    assert answers[0].json == embeddings(asking(["a", "b"]))
    assert answers[1].json["data"] == embeddings(asking(["b", "c", "a"]))["data"]


@pytest.mark.parametrize("given", ["a", ["a", "c"]], ids=["alone", "among others"])
async def test_what_another_process_was_refused_for_another_input_is_asked_anew(upstream, tmp_path, given):
    may_go_on = asyncio.Event()

    async def picky(call, writer, serial):
        if "bad" in call.json["input"]:
            await may_go_on.wait()
            await whole(writer, b'{"error":{"message":"input[1] is bad"}}', status=400)
        else:
            await embed(call, writer, serial)

    upstream.on("m", picky)
    async with two(tmp_path, in_front_of(upstream.url)) as (one, other):
        first = asyncio.create_task(embedded(one, ["a", "bad"]))
        await upstream.called(1)
        second = asyncio.create_task(embedded(other, given))
        await until(lambda: lease_of(other).following == 1)
        may_go_on.set()
        refused, good = await asyncio.gather(first, second)

    assert refused.status == 400
    assert good.json["data"] == embeddings(asking(given))["data"]
