"""Models that are functions of whoever runs the node: whole, streamed, failing, endless, each in a process of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from foretold.config import load
from foretold.models.weights import held, weights_of
from tests.library.worlds import Told
from tests.running import Client, running
from tests.waiting import until

FAKES = Path(__file__).parents[1] / "fakes"


def settings(folder: Path, function: str = "answers:reply", *, more: str = "parallel = 1", path: Path = FAKES) -> str:
    return f"""
[models.own]
engine = "python"
callable = "{function}"
path = "{path}"
environment = {{ WORLD = "{folder}" }}
revision = "one"
memory = "50 MB"
context = 512
capabilities = ["chat", "completion"]
{more}
[models.other]
engine = "python"
callable = "answers:later"
path = "{FAKES}"
revision = "one"
memory = "50 MB"
context = 512
"""


@asynccontextmanager
async def node_of(folder: Path, function: str = "answers:reply", **more) -> AsyncIterator[Client]:
    text = settings(folder, function, **more)
    with held() as using:
        weights = await weights_of(load(text), folder / "models", using=using, tell=Told())
        async with running(text, folder / "data", weights=weights) as node:
            yield node


def calls(folder: Path) -> list[str]:
    file = folder / "calls"
    return file.read_text().split() if file.exists() else []


@pytest.mark.parametrize("streamed", [False, True])
async def test_text_that_a_function_returns_is_the_answer_and_is_kept(tmp_path, streamed):
    async with node_of(tmp_path) as node:
        first = await node.chat("hello", model="own", stream=streamed)
        again = await node.chat("hello", model="own", stream=not streamed)

    assert (first.status, first.text, first.is_hit) == (200, "chat: hello", False)
    assert (again.text, again.is_hit) == ("chat: hello", True)


async def test_a_function_answers_text_completions_and_gets_the_body_as_it_was_asked(tmp_path):
    async with node_of(tmp_path) as node:
        completed = await node.post("/v1/completions", {"model": "own", "prompt": "go on", "max_tokens": 5})
        body = await node.chat("body", model="own", temperature=0.5)

    assert completed.json["choices"][0]["text"] == "completion: go on"
    assert body.text == "max_tokens,messages,model,stream,stream_options,temperature"


async def test_an_answer_in_openai_s_shape_goes_out_as_it_is(tmp_path):
    async with node_of(tmp_path) as node:
        answered = (await node.chat("object", model="own")).json

    assert answered["choices"][0]["message"]["content"] == "an object"
    assert answered["choices"][0]["finish_reason"] == "length"
    assert answered["usage"]["total_tokens"] == 3
    assert answered["model"] == "own"


@pytest.mark.parametrize("function", ["answers:stream", "answers:later", "answers:kept.answer"])
async def test_generators_async_functions_and_methods_answer_too(tmp_path, function):
    async with node_of(tmp_path, function) as node:
        answered = await node.chat("hello", model="own", stream=True)

    said = {"answers:stream": "one two three", "answers:later": "later", "answers:kept.answer": "number 1"}
    assert (answered.status, answered.text) == (200, said[function])
    assert b"[DONE]" in answered.body


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("raise", "its function failed: ValueError at "),
        ("number", "its function gave no answer: it gave a int: give text, or an answer or chunk in OpenAI's shape"),
    ],
)
async def test_a_function_that_raises_or_gives_no_answer_is_a_500_without_its_words_and_not_kept(
    tmp_path, question, told, caplog
):
    caplog.set_level(logging.WARNING, logger="foretold")
    async with node_of(tmp_path) as node:
        failed = await node.chat(question, model="own")
        kept = await node.chat(question, {"cache-control": "only-if-cached"}, model="own")
        after = await node.chat("hello", model="own")
        await until(lambda: "its function" in caplog.text)

    assert (failed.status, failed.json["error"]["code"]) == (500, "engine_failed")
    assert b"secret" not in failed.body
    assert kept.status == 504
    assert after.text == "chat: hello"
    assert f"model 'own': {told}" in caplog.text
    assert "secret" not in caplog.text


async def test_a_function_that_raises_in_mid_answer_ends_it_with_an_error_event_and_nothing_is_kept(tmp_path):
    async with node_of(tmp_path, "answers:stream") as node:
        answering, first = await node.begin_chat("raise", model="own", stream=True)
        rest = first + await answering.read()
        kept = await node.chat("raise", {"cache-control": "only-if-cached"}, model="own", stream=True)

    assert b'"error"' in rest
    assert b"[DONE]" not in rest
    assert b"secret" not in rest
    assert kept.status == 504


async def test_an_async_function_that_raises_system_exit_fails_its_own_answer_and_no_other(tmp_path):
    async with node_of(tmp_path, "answers:exits", more="parallel = 2") as node:
        other, first = await node.begin_chat("stay", model="own", stream=True)
        failed = await node.chat("exit", model="own")
        (tmp_path / "finish").touch()
        rest = first + await other.read()
        kept = await node.chat("exit", {"cache-control": "only-if-cached"}, model="own")
        counts = node.assembled.models.pool.told()[0]["counts"]

    assert (failed.status, b"secret" in failed.body) == (500, False)
    assert b"to the end" in rest
    assert b"[DONE]" in rest
    assert kept.status == 504
    assert counts["failures"] == 0


@pytest.mark.parametrize(
    ("function", "question"), [("answers:stream", "endless"), ("answers:stream", "spin"), ("answers:drip", "x")]
)
async def test_an_endless_function_ends_when_its_caller_leaves_and_gives_its_slot_back(tmp_path, function, question):
    async with node_of(tmp_path, function) as node:
        _, first = await node.begin_chat(question, model="own", stream=True)
        assert b"o" in first
        loop = asyncio.get_running_loop()
        left_s = loop.time()
        await node.rest()
        await until(lambda: "ended" in calls(tmp_path))
        took_s = loop.time() - left_s
        pool = node.assembled.models.pool
        await until(lambda: pool.told()[0]["answering"] == 0)
        counts = pool.told()[0]["counts"]

        if function == "answers:stream":
            assert (await node.chat("hello", model="own")).text == "one two three"
    assert took_s < 10  # a second, on a machine that does nothing else
    assert counts["failures"] == 0


async def test_no_more_calls_run_at_once_than_there_are_slots(tmp_path):
    async with node_of(tmp_path, "answers:kept.answer", more="parallel = 2") as node:
        answered = await asyncio.gather(*(node.chat(f"hello {n}", model="own") for n in range(6)))

    assert sorted(one.text for one in answered) == [f"number {n}" for n in range(1, 7)]


@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("answers:missing", "AttributeError: module 'answers' has no attribute 'missing'"),
        ("no_such_module:reply", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("answers:HERE", "TypeError: HERE is a PosixPath, and no function"),
        ("broken:reply", "SystemExit: it wants to go"),
    ],
)
async def test_why_a_function_can_not_be_called_is_told_when_it_is_loaded(tmp_path, function, why):
    (tmp_path / "broken.py").write_text("raise SystemExit('it wants to go')\n")
    path = tmp_path if function == "broken:reply" else FAKES
    async with node_of(tmp_path, function, path=path) as node:
        asked = await node.chat("hello", model="own")
        told = await node.post("/-/models/load", {"model": "own"}, node.admin_headers)

    assert (asked.status, told.status) == (503, 503)
    assert why in told.json["detail"]
