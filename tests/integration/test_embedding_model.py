"""A model that makes vectors, on its real engine: noise for weights, which is enough to see how it is asked."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator

import pytest

from foretold.errors import OriginError, OriginTimeout, Refused
from foretold.models.host import Host
from foretold.origins.engine_call import Patience
from foretold.origins.local import LocalOrigin
from foretold.ports import Asked, Forwarded
from tests.fakes import tiny_models
from tests.fakes.engine import FakeEngine, FakeHost, error
from tests.waiting import until


@pytest.fixture
async def origin(tmp_path) -> AsyncIterator[LocalOrigin]:
    file = tiny_models.bert(tmp_path / "tiny.gguf")
    manifest = tiny_models.described_as(file)
    host = Host(manifest, file, tmp_path / "run")
    yield LocalOrigin(host, manifest)
    await host.stop()


def question(value, **members) -> Asked:
    body = json.dumps({"model": "tiny", "input": value} | members).encode()
    return Asked(operation="embedding", model="tiny", method="POST", path="/embeddings", body=body)


async def ask(origin, value, **members):
    incoming = await origin.fetch(question(value, **members), Forwarded())
    body = b"".join([chunk async for chunk in incoming.chunks()])
    assert (incoming.status, incoming.is_proven, incoming.length) == (200, True, len(body))
    return json.loads(body)


async def test_each_input_has_its_vector_of_length_one(origin):
    told = await ask(origin, ["a b c", "d e"])

    assert (told["object"], told["model"]) == ("list", "tiny")
    assert [(one["object"], one["index"]) for one in told["data"]] == [("embedding", 0), ("embedding", 1)]
    for one in told["data"]:
        assert len(one["embedding"]) == tiny_models.WIDTH
        assert math.isclose(math.hypot(*one["embedding"]), 1, rel_tol=1e-5)
    # Each has a mark at its beginning and its end.
    assert told["usage"] == {"prompt_tokens": 5 + 4, "total_tokens": 5 + 4}


async def test_texts_and_their_tokens_have_the_same_vector(origin):
    text = await ask(origin, "a b")
    tokens = await ask(origin, [2, 5, 6, 3])

    assert tokens["data"][0]["embedding"] == pytest.approx(text["data"][0]["embedding"], abs=1e-6)


async def test_hundreds_of_inputs_keep_their_order(origin):
    inputs = [f"{chr(97 + at % 26)} {chr(97 + at // 26)}" for at in range(300)]

    told = await ask(origin, inputs)

    assert [one["index"] for one in told["data"]] == list(range(300))
    for at in (0, 7, 8, 150, 299):
        alone = await ask(origin, inputs[at])
        assert told["data"][at]["embedding"] == pytest.approx(alone["data"][0]["embedding"], abs=1e-5)


async def test_an_input_of_all_tokens_that_fit_is_taken_and_one_more_is_refused_with_both_numbers(origin):
    whole = await ask(origin, "a " * 254)

    assert whole["usage"]["prompt_tokens"] == 256
    for value in ("a " * 255, [5] * 257):
        with pytest.raises(Refused, match="has 257 tokens, and model 'tiny' takes 256") as refused:
            await ask(origin, value)
        assert (refused.value.status_here, refused.value.code_here) == (400, "context_length_exceeded")


async def test_a_token_that_the_model_does_not_know_is_refused(origin):
    with pytest.raises(Refused, match=r"input\[0\] has a token number"):
        await ask(origin, [999_999])


async def test_the_length_of_its_vectors_is_the_only_one_that_may_be_asked_for(origin):
    assert len((await ask(origin, "a", dimensions=tiny_models.WIDTH))["data"]) == 1
    with pytest.raises(Refused, match=f"wanted is {tiny_models.WIDTH}"):
        await ask(origin, "a", dimensions=32)


@pytest.mark.parametrize("operation", ["chat", "completion"])
async def test_it_is_not_asked_for_text(origin, operation):
    asked = Asked(operation=operation, model="tiny", method="POST", path="/x", body=b'{"prompt": "a", "messages": []}')

    with pytest.raises(Refused, match="does not answer"):
        await origin.fetch(asked, Forwarded())


async def test_leaving_in_mid_work_asks_for_no_more_and_frees_the_slot(tmp_path):
    said = b'{"data":[{"index":0,"embedding":[1.0]}],"usage":{"prompt_tokens":1}}'
    whole = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(said), said)
    manifest = tiny_models.described_as(tiny_models.bert(tmp_path / "tiny.gguf"), parallel=1)
    async with FakeEngine(tmp_path, whole, [asyncio.Event()], whole) as engine:
        origin = LocalOrigin(FakeHost(engine.socket), manifest)
        fetching = asyncio.create_task(origin.fetch(question([[5] * 200, [6] * 200, [7] * 200]), Forwarded()))
        await until(lambda: len(engine.asked) == 2)

        fetching.cancel()

        with pytest.raises(asyncio.CancelledError):
            await fetching
        await asyncio.wait_for(engine.asked[1].left.wait(), 20)
        assert (await ask(origin, [7]))["data"][0]["embedding"] == [1.0]
        assert [asked.body["input"] for asked in engine.asked] == [[[5] * 200], [[6] * 200], [[7]]]


async def test_vectors_with_holes_are_an_error(tmp_path):
    said = b'{"data":[{"index":0,"embedding":[1.0,null]}],"usage":{"prompt_tokens":1}}'
    answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(said), said)
    manifest = tiny_models.described_as(tiny_models.bert(tmp_path / "tiny.gguf"))
    async with FakeEngine(tmp_path, answer) as engine:
        with pytest.raises(OriginError, match="finite numbers"):
            await LocalOrigin(FakeHost(engine.socket), manifest).fetch(question("a"), Forwarded())


async def test_an_engine_that_fails_is_told_as_its_fault_and_not_with_its_words(tmp_path):
    manifest = tiny_models.described_as(tiny_models.bert(tmp_path / "tiny.gguf"))
    async with FakeEngine(tmp_path, error(500)) as engine:
        with pytest.raises(OriginError) as failed:
            await LocalOrigin(FakeHost(engine.socket), manifest).fetch(question("a"), Forwarded())

    assert "/some/file" not in str(failed.value)


async def test_more_vectors_than_time_allows_are_a_timeout_that_says_so(tmp_path):
    manifest = tiny_models.described_as(tiny_models.bert(tmp_path / "tiny.gguf"))
    async with FakeEngine(tmp_path, [asyncio.Event()]) as engine:
        origin = LocalOrigin(FakeHost(engine.socket), manifest, patience=Patience(total_s=0.2))
        with pytest.raises(OriginTimeout, match="ask for fewer at once"):
            await origin.fetch(question(["a", "b"]), Forwarded())
