"""The local origin over a real unix socket, before an engine that does what it is told."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from dataclasses import replace

import pytest

from foretold.contract.events import ends_cleanly, split
from foretold.errors import OriginCut, OriginTimeout, OriginUnready, Refused
from foretold.models.manifest import SMOLLM2
from foretold.origins.engine_call import Patience
from foretold.origins.local import LocalOrigin
from foretold.ports import Asked, Forwarded
from foretold.projections import chat
from tests.fakes.engine import ANSWER, CUT, DONE, PROGRESS, FakeEngine, FakeHost, error, event, said
from tests.waiting import until

ONE_SLOT = replace(SMOLLM2, parallel=1)


@pytest.fixture
def play(tmp_path):
    """A fake engine with these scripts."""
    return lambda *scripts: FakeEngine(tmp_path, *scripts)


def origin_at(engine, *, manifest=ONE_SLOT, **patience) -> LocalOrigin:
    return LocalOrigin(FakeHost(engine.socket), manifest, patience=Patience(**patience))


def question(operation="chat", **members) -> Asked:
    asked = {"messages": [{"role": "user", "content": "hi"}]} if operation == "chat" else {"prompt": "hi"}
    return Asked(operation=operation, model="m", method="POST", path="/x", body=json.dumps(asked | members).encode())


def fetch(origin, asked=None):
    return origin.fetch(asked or question(), Forwarded())


async def body_of(incoming) -> bytes:
    return b"".join([chunk async for chunk in incoming.chunks()])


async def test_an_answer_is_a_transcript_of_whole_events_that_is_proven_at_its_end(play):
    async with play() as engine:
        incoming = await fetch(origin_at(engine))
        proven_before, body = incoming.is_proven, await body_of(incoming)

    events, rest = split(body)
    assert (incoming.status, incoming.length, incoming.is_fallback) == (200, None, False)
    assert dict(incoming.headers)["content-type"].startswith("text/event-stream")
    assert ends_cleanly(events, rest)
    assert chat.whole_of(events)["choices"][0]["message"]["content"] == "blue"
    assert b"prompt_progress" not in body
    assert (proven_before, incoming.is_proven) == (False, True)


@pytest.mark.parametrize("streamed", [True, False])
async def test_it_streams_inwards_whatever_the_caller_asked(play, streamed):
    async with play() as engine:
        await body_of(await fetch(origin_at(engine), question(stream=streamed)))

    assert engine.asked[0].body["stream"] is True
    assert engine.asked[0].body["return_progress"] is True


@pytest.mark.parametrize(("operation", "route"), [("chat", "/v1/chat/completions"), ("completion", "/v1/completions")])
async def test_each_operation_has_its_one_route_and_the_key(play, operation, route):
    async with play() as engine:
        await body_of(await fetch(origin_at(engine), question(operation)))

    assert engine.asked[0].route == route
    assert engine.asked[0].headers["authorization"] == "bearer a key"


async def test_nothing_of_the_callers_headers_goes_to_the_engine(play):
    forwarded = Forwarded((("x-secret", "1"), ("traceparent", "2")), ("authorization", "Bearer theirs"))
    async with play() as engine:
        await body_of(await origin_at(engine).fetch(question(), forwarded))

    assert not engine.asked[0].headers.keys() & {"x-secret", "traceparent"}
    assert "theirs" not in engine.asked[0].headers["authorization"]


@pytest.mark.parametrize("operation", ["predict", "embedding", "json /x", ""])
async def test_other_operations_are_refused(play, operation):
    async with play() as engine:
        with pytest.raises(Refused):
            await fetch(origin_at(engine), question(operation))

    assert engine.asked == []


async def test_a_refused_question_does_not_start_the_engine(tmp_path):
    host = FakeHost(tmp_path / "none")

    with pytest.raises(Refused):
        await fetch(LocalOrigin(host, ONE_SLOT), question(n_discard=-50))

    assert host.starts == 0


async def test_pieces_cut_anywhere_come_out_as_whole_events(play):
    stream = said("Zoë 🌍") + said(None, "stop") + DONE
    async with play([stream[at : at + 3] for at in range(0, len(stream), 3)]) as engine:
        incoming = await fetch(origin_at(engine))
        chunks = [chunk async for chunk in incoming.chunks()]

    assert all(chunk.endswith(b"\n\n") for chunk in chunks)
    assert chat.whole_of(split(b"".join(chunks))[0])["choices"][0]["message"]["content"] == "Zoë 🌍"


async def test_closing_an_answer_closes_the_connection(play):
    async with play([said("a"), asyncio.Event()]) as engine:
        incoming = await fetch(origin_at(engine))
        await incoming.close()
        await incoming.close()

        await asyncio.wait_for(engine.asked[0].left.wait(), 5)
        assert not incoming.is_proven


async def test_leaving_the_chunks_closes_the_connection(play):
    async with play([said("a"), said("b"), asyncio.Event()]) as engine:
        incoming = await fetch(origin_at(engine))
        chunks = incoming.chunks()
        await anext(chunks)
        await chunks.aclose()

        await asyncio.wait_for(engine.asked[0].left.wait(), 5)


@pytest.mark.parametrize(
    "script", [[asyncio.Event()], [PROGRESS, asyncio.Event()]], ids=["before the head", "in the prompt"]
)
async def test_cancelling_before_the_first_token_closes_the_connection(play, script):
    async with play([asyncio.Event() if isinstance(s, asyncio.Event) else s for s in script]) as engine:
        fetching = asyncio.create_task(fetch(origin_at(engine)))
        await asyncio.wait_for(engine.arrived.wait(), 5)

        fetching.cancel()

        with pytest.raises(asyncio.CancelledError):
            await fetching
        await asyncio.wait_for(engine.asked[0].left.wait(), 5)


async def test_no_more_is_asked_at_once_than_there_are_slots(play):
    go_on = asyncio.Event()
    async with play([said("a"), go_on, *ANSWER]) as engine:
        origin = origin_at(engine, manifest=replace(SMOLLM2, parallel=2))
        fetching = [asyncio.create_task(fetch(origin)) for _ in range(5)]
        await until(lambda: sum(task.done() for task in fetching) == 2)
        asked_first = len(engine.asked)
        go_on.set()
        for task in asyncio.as_completed(fetching):
            await body_of(await task)

    assert asked_first == 2
    assert len(engine.asked) == 5


@pytest.mark.parametrize(
    "script", [ANSWER, [said("a"), CUT], error(400), [CUT]], ids=["ends", "is cut", "is refused", "dies at once"]
)
async def test_however_an_answer_ends_its_slot_is_free_again(play, script):
    async with play(script, script, ANSWER) as engine:
        origin = origin_at(engine, slot_s=5)
        for _ in range(2):
            with contextlib.suppress(OriginCut):
                await body_of(await fetch(origin))

        assert b"blue" in await body_of(await fetch(origin))


async def test_who_waits_too_long_for_a_slot_hears_that_the_model_is_busy(play):
    async with play([said("a"), asyncio.Event()]) as engine:
        origin = origin_at(engine, slot_s=0.05)
        first = await fetch(origin)

        with pytest.raises(OriginUnready, match="busy"):
            await fetch(origin)
        await first.close()


async def test_giving_up_while_waiting_for_a_slot_takes_none(play):
    go_on = asyncio.Event()
    async with play([said("a"), go_on, DONE], ANSWER) as engine:
        origin = origin_at(engine)
        first, waiting = await fetch(origin), asyncio.create_task(fetch(origin))
        await asyncio.sleep(0)
        waiting.cancel()
        go_on.set()
        await body_of(first)

        assert b"blue" in await body_of(await fetch(origin))


async def test_an_engine_silent_from_the_start_is_timed_out_and_condemned(play):
    async with play([asyncio.Event()]) as engine:
        host = FakeHost(engine.socket)
        with pytest.raises(OriginTimeout):
            await fetch(LocalOrigin(host, ONE_SLOT, patience=Patience(first_s=0.05)))

        assert len(host.condemned) == 1
        await asyncio.wait_for(engine.asked[0].left.wait(), 5)


@pytest.mark.parametrize("begun", [[PROGRESS], [said("a")]], ids=["in the prompt", "in mid-answer"])
async def test_an_engine_that_falls_silent_is_timed_out_and_condemned(play, begun):
    async with play([*begun, asyncio.Event()]) as engine:
        host = FakeHost(engine.socket)
        origin = LocalOrigin(host, ONE_SLOT, patience=Patience(idle_s=0.05))
        with pytest.raises(OriginTimeout, match="silent"):
            await body_of(await fetch(origin))

        assert host.condemned == ["the engine stopped answering"]
        await asyncio.wait_for(engine.asked[0].left.wait(), 5)


async def test_an_answer_that_takes_too_long_altogether_does_not_condemn_the_engine(play):
    async with play([said("a"), asyncio.Event()]) as engine:
        host = FakeHost(engine.socket)
        origin = LocalOrigin(host, ONE_SLOT, patience=Patience(total_s=0.05))
        with pytest.raises(OriginTimeout, match="did not end"):
            await body_of(await fetch(origin))

        assert host.condemned == []


async def test_progress_is_a_sign_of_life(play):
    steps = [asyncio.Event() for _ in range(6)]
    async with play([part for step in steps for part in (PROGRESS, step)] + ANSWER) as engine:
        origin = origin_at(engine, idle_s=0.5)
        fetching = asyncio.create_task(fetch(origin))
        for step in steps:
            await asyncio.sleep(0.15)
            step.set()

        assert b"blue" in await body_of(await fetching)


@pytest.mark.parametrize("end", [[CUT], [], [b"data: {\n\n"]], ids=["cut", "none", "garbled"])
async def test_an_answer_without_its_end_is_cut_and_never_proven(play, end):
    go_on = asyncio.Event()
    async with play([said("a"), go_on, *end]) as engine:
        incoming = await fetch(origin_at(engine))
        go_on.set()
        with pytest.raises(OriginCut):
            await body_of(incoming)

    assert not incoming.is_proven


@pytest.mark.parametrize("script", [[CUT], [PROGRESS, CUT]], ids=["before the head", "in the prompt"])
async def test_an_engine_that_dies_before_its_first_token_cuts_the_answer(play, script):
    async with play(script) as engine:
        with pytest.raises(OriginCut):
            await fetch(origin_at(engine))


async def test_an_engine_that_dies_while_it_thinks_cuts_the_answer(play):
    async with play([asyncio.Event()]) as engine:
        fetching = asyncio.create_task(fetch(origin_at(engine)))
        await asyncio.wait_for(engine.arrived.wait(), 5)
        engine.cut_all()

        with pytest.raises(OriginCut):
            await fetching


async def test_an_error_in_mid_answer_cuts_it(play):
    async with play([said("a"), asyncio.Event(), event({"error": {"code": 500}})]) as engine:
        incoming = await fetch(origin_at(engine))
        engine.scripts[0][1].set()
        with pytest.raises(OriginCut, match="failed in mid-answer"):
            await body_of(incoming)


async def test_an_error_before_the_first_token_is_told_with_its_status(play):
    async with play([PROGRESS, event({"error": {"code": 400, "message": "/a/file", "type": "x"}})]) as engine:
        incoming = await fetch(origin_at(engine))
        told = json.loads(await body_of(incoming))

    assert incoming.status == 400
    assert "/a/file" not in told["error"]["message"]


async def test_what_the_engine_refuses_is_told_in_openais_shape(play):
    overflow = error(400, type="exceed_context_size_error", n_prompt_tokens=3001, n_ctx=2048)
    async with play(overflow) as engine:
        incoming = await fetch(origin_at(engine), question("completion"))
        told = json.loads(await body_of(incoming))

    assert (incoming.status, incoming.headers) == (400, [("content-type", "application/json")])
    assert told["error"]["code"] == "context_length_exceeded"
    assert told["error"]["param"] == "prompt"


@pytest.mark.parametrize("status", [401, 404])
async def test_a_stranger_at_the_socket_is_no_engine(play, status):
    async with play(error(status)) as engine:
        with pytest.raises(OriginUnready):
            await fetch(origin_at(engine))


async def test_an_engine_that_died_unseen_is_condemned_and_asked_once_more(tmp_path):
    host = FakeHost(tmp_path / "nobody.sock")

    with pytest.raises(OriginUnready, match="takes no connections"):
        await fetch(LocalOrigin(host, ONE_SLOT))

    assert host.starts == 2
    assert len(host.condemned) == 2


async def test_a_model_that_cannot_be_loaded_is_unready_and_names_no_file(tmp_path):
    host = FakeHost(tmp_path, fails="its file /home/someone/blob is damaged")

    with pytest.raises(OriginUnready) as unready:
        await fetch(LocalOrigin(host, ONE_SLOT))

    assert "/home" not in str(unready.value)
    assert "/home" in str(unready.value.__cause__)


async def test_an_answer_that_breaks_the_asked_json_says_why_it_is_not_to_be_kept(play):
    async with play() as engine:
        incoming = await fetch(origin_at(engine), question(response_format={"type": "json_object"}))
        await body_of(incoming)

    assert incoming.why_not == "not-json"


def test_the_engine_is_named_with_its_version_without_importing_it():
    origin = LocalOrigin(FakeHost(None), SMOLLM2)

    assert origin.engine.startswith("xllamacpp/20")
    assert "xllamacpp" not in sys.modules


WITH_TOOLS = replace(ONE_SLOT, capabilities=ONE_SLOT.capabilities | {"tools"})
TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}
CALLED = event(
    {
        "id": "chatcmpl-x",
        "choices": [
            {
                "index": 0,
                "delta": {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "look_up", "arguments": "{}"}}]},
                "finish_reason": None,
            }
        ],
    }
)


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "look_up"}}])
async def test_a_model_told_to_call_that_talks_instead_is_cut_and_never_taken_for_an_answer(play, choice):
    rest = asyncio.Event()
    async with play([said("blue"), rest, said(None, "stop"), DONE], [b"".join(ANSWER)]) as engine:
        asked, origin = question(tools=[TOOL], tool_choice=choice), origin_at(engine, manifest=WITH_TOOLS)
        incoming = await fetch(origin, asked)
        rest.set()
        with pytest.raises(OriginCut, match="called no tool, though it was told to"):
            await body_of(incoming)
        at_once = await fetch(origin, asked)
        told = await body_of(at_once)

    assert engine.asked[0].body["tool_choice"] == "required"
    assert not incoming.is_proven
    assert at_once.status == 500
    assert "called no tool" in json.loads(told)["error"]["message"]


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
async def test_a_model_that_calls_or_may_talk_is_heard_to_its_end(play, choice):
    script = [CALLED, said(None, "tool_calls"), DONE] if choice == "required" else ANSWER
    async with play(script) as engine:
        asked = question(tools=[TOOL], tool_choice=choice)
        incoming = await fetch(origin_at(engine, manifest=WITH_TOOLS), asked)
        body = await body_of(incoming)

    assert incoming.is_proven
    assert ends_cleanly(*split(body))


async def test_a_model_that_knows_no_tools_is_not_asked_for_a_call(play):
    async with play() as engine:
        with pytest.raises(Refused) as refused:
            await fetch(origin_at(engine), question(tools=[TOOL], tool_choice="required"))

    assert refused.value.code_here == "no_tools"
    assert engine.asked == []
