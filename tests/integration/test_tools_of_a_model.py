"""Tools of a model whose template knows them, on the real engine.

The weights are noise, so what the model says is driven by biases; that a call has the form that was asked for, is the
engine's work.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from foretold.contract.events import split
from foretold.contract.storable import why_not
from foretold.errors import OriginCut
from foretold.models.host import Host
from foretold.origins.local import LocalOrigin
from foretold.ports import Asked, Forwarded
from foretold.projections import chat
from foretold.projections.calls import transcript_with_fresh_ids
from tests.fakes import tiny_models

# The tokens of the beginning and the end of a call, and the end of the answer.
BEGIN, END, STOP = "5", "6", "4"
CALLS_ONCE = {BEGIN: 70, END: 60, STOP: 100}
CALLS_ON = {BEGIN: 100, END: 60}


def tool(name: str, **properties) -> dict:
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "description": "Does it.", "parameters": schema}}


PAINT = tool("paint", colour={"enum": ["red", "blue"]}, coats={"type": "integer", "minimum": 1, "maximum": 3})
WIPE = tool("wipe", is_hard={"type": "boolean"})


@pytest.fixture
async def origin(tmp_path) -> AsyncIterator[LocalOrigin]:
    file = tiny_models.llama(tmp_path / "tiny.gguf", template=tiny_models.WITH_TOOLS)
    manifest = tiny_models.described_as(file)
    host = Host(manifest, file, tmp_path / "run")
    yield LocalOrigin(host, manifest)
    await host.stop()


async def told(origin, **members) -> bytes:
    asked = {"messages": [{"role": "user", "content": "hi"}], "tools": [PAINT, WIPE], "temperature": 0}
    # Enough for a call with all the blanks that its form allows.
    body = json.dumps(asked | {"max_tokens": 600} | members).encode()
    question = Asked(operation="chat", model="tiny", method="POST", path="/x", body=body)
    incoming = await origin.fetch(question, Forwarded())
    transcript = b"".join([chunk async for chunk in incoming.chunks()])
    assert (incoming.status, incoming.is_proven, incoming.why_not) == (200, True, None), transcript[:500]
    return transcript


def choice_of(transcript: bytes) -> dict:
    (choice,) = chat.whole_of(split(transcript)[0])["choices"]
    return choice


def is_call(call: dict) -> bool:
    """Of one of the two tools, with arguments of its schema."""
    arguments = json.loads(call["function"]["arguments"])
    if call["function"]["name"] == "wipe":
        return list(arguments) == ["is_hard"] and isinstance(arguments["is_hard"], bool)
    assert call["function"]["name"] == "paint"
    return arguments["colour"] in ("red", "blue") and arguments["coats"] in (1, 2, 3) and len(arguments) == 2


@pytest.mark.parametrize("seed", range(6))
async def test_a_model_that_must_call_calls_with_arguments_of_the_schema(origin, seed):
    transcript = await told(origin, tool_choice="required", temperature=1, seed=seed, logit_bias=CALLS_ONCE)

    choice = choice_of(transcript)
    assert choice["finish_reason"] == "tool_calls"
    assert not choice["message"]["content"]
    assert all(is_call(call) for call in choice["message"]["tool_calls"])


@pytest.mark.parametrize("wanted", [PAINT, WIPE])
async def test_a_function_that_is_named_is_the_one_that_is_called(origin, wanted):
    name = wanted["function"]["name"]
    named = {"type": "function", "function": {"name": name}}

    transcript = await told(origin, tool_choice=named, logit_bias=CALLS_ONCE)

    calls = choice_of(transcript)["message"]["tool_calls"]
    assert [call["function"]["name"] for call in calls] == [name]
    assert is_call(calls[0])


async def test_a_model_that_may_call_may_talk(origin):
    transcript = await told(origin, tool_choice="auto", max_tokens=8)

    choice = choice_of(transcript)
    assert choice["message"]["content"]
    assert "tool_calls" not in choice["message"]


async def test_a_model_that_must_call_and_talks_is_cut_and_never_taken_for_an_answer(origin):
    with pytest.raises(OriginCut, match="called no tool"):
        await told(origin, tool_choice="required", max_tokens=8)


async def test_several_calls_come_in_one_answer(origin):
    transcript = await told(origin, tool_choice="required", logit_bias=CALLS_ON, max_tokens=1000)

    calls = choice_of(transcript)["message"]["tool_calls"]
    assert len(calls) > 1
    assert len({call["id"] for call in calls}) == len(calls)
    assert all(is_call(call) for call in calls[:-1])


async def test_who_wants_one_call_gets_one_though_the_model_goes_on(origin):
    asked = {"tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 1000}
    transcript = await told(origin, logit_bias=CALLS_ON, **asked)

    (call,) = choice_of(transcript)["message"]["tool_calls"]
    assert is_call(call)


async def test_an_answer_that_calls_may_be_kept_and_has_fresh_ids_when_it_is_told_again(origin):
    transcript = await told(origin, tool_choice="required", logit_bias=CALLS_ONCE)

    whole = chat.whole_of(split(transcript)[0])
    again = chat.whole_of(split(transcript_with_fresh_ids(transcript, b"chance"))[0])
    assert why_not("chat", 200, whole, limited=False) is None
    (before,) = whole["choices"][0]["message"]["tool_calls"]
    (after,) = again["choices"][0]["message"]["tool_calls"]
    assert after["id"] != before["id"]
    assert after["function"] == before["function"]


async def test_what_a_tool_said_goes_back_to_the_model(origin):
    call = {"id": "call_1", "type": "function", "function": {"name": "wipe", "arguments": '{"is_hard":true}'}}
    talk = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "wiped"},
    ]

    assert choice_of(await told(origin, messages=talk, max_tokens=8))["message"]["content"]
