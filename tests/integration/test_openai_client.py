"""The official Python client, in all orders of whole, streamed, miss and hit: equal objects but for tool-call ids."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from tests.fakes.agent import TOOLS, agent, without_ids
from tests.fakes.upstream import chat, chunks_of, whole
from tests.running import in_front_of, running


def client_of(node) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{node.url}/v1", api_key="sk-test", max_retries=0)


async def ask(client: openai.AsyncOpenAI, messages: Any, *, streamed: bool) -> dict[str, Any]:
    """The answer as the client's own objects tell it, whole or put together from the stream."""
    asked: Any = {"model": "m", "messages": messages, "tools": TOOLS}
    if not streamed:
        return (await client.chat.completions.create(**asked)).model_dump()
    async with client.chat.completions.stream(**asked, stream_options={"include_usage": True}) as events:
        async for _ in events:
            pass
        told = (await events.get_final_completion()).model_dump()
    for choice in told["choices"]:
        choice["message"].pop("parsed", None)
        for tool_call in choice["message"].get("tool_calls") or ():
            tool_call.pop("index", None)
            tool_call["function"].pop("parsed_arguments", None)
    return told


@pytest.mark.parametrize("order", [(False, True), (True, False), (False, False), (True, True)], ids=str)
@pytest.mark.parametrize("turns", [0, 3], ids=["tools", "text"])
async def test_miss_and_hit_whole_and_streamed_are_equal_objects(upstream, tmp_path, order, turns):
    upstream.on("m", agent)
    messages = [{"role": "user", "content": "Weather?"}, *[{"role": "assistant", "content": "…"}] * turns]
    async with running(in_front_of(upstream.url), tmp_path) as node, client_of(node) as client:
        first = await ask(client, messages, streamed=order[0])
        second = await ask(client, messages, streamed=order[1])
        third = await ask(client, messages, streamed=order[0])

    assert without_ids(first) == without_ids(second) == without_ids(third)
    assert len(upstream.calls) == 1


async def test_ids_of_tool_calls_are_new_in_every_delivery_and_unlike_inside_one(upstream, tmp_path):
    upstream.on("m", agent)
    messages = [{"role": "user", "content": "Weather?"}]
    async with running(in_front_of(upstream.url), tmp_path) as node, client_of(node) as client:
        seen: list[str] = []
        for streamed in (False, True, False, True, False):
            told = await ask(client, messages, streamed=streamed)
            seen += [c["id"] for c in told["choices"][0]["message"]["tool_calls"]]

    assert len(seen) == len(set(seen)) == 10
    assert all(id.startswith("call_") and len(id) == len(seen[0]) for id in seen)


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_an_agent_loop_asked_twice_hits_every_time_the_second_time(upstream, tmp_path, streamed):
    upstream.on("m", agent)

    async def loop(client: openai.AsyncOpenAI) -> str:
        messages: list[Any] = [{"role": "user", "content": "Weather?"}]
        while True:
            message = (await ask(client, messages, streamed=streamed))["choices"][0]["message"]
            if not message.get("tool_calls"):
                return message["content"]
            messages.append({k: v for k, v in message.items() if k in ("role", "content", "tool_calls")})
            for tool_call in message["tool_calls"]:
                city = json.loads(tool_call["function"]["arguments"])["city"]
                messages.append({"role": "tool", "tool_call_id": tool_call["id"], "content": f"{city}: rain"})

    async with running(in_front_of(upstream.url), tmp_path) as node, client_of(node) as client:
        text = await loop(client)
        calls_of_the_first = len(upstream.calls)
        same_text = await loop(client)

    assert calls_of_the_first == len(upstream.calls) == 4
    assert text == same_text


async def test_results_given_to_the_wrong_calls_are_another_question(upstream, tmp_path):
    def messages(one: str, other: str) -> Any:
        calls = [
            {"id": i, "type": "function", "function": {"name": n, "arguments": "{}"}}
            for i, n in (("a", "x"), ("b", "y"))
        ]
        results = [{"role": "tool", "tool_call_id": i, "content": t} for i, t in ((one, "1"), (other, "2"))]
        return [{"role": "user", "content": "?"}, {"role": "assistant", "content": None, "tool_calls": calls}, *results]

    async with running(in_front_of(upstream.url), tmp_path) as node, client_of(node) as client:
        await ask(client, messages("a", "b"), streamed=False)
        await ask(client, messages("b", "a"), streamed=False)

    assert len(upstream.calls) == 2


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (404, openai.NotFoundError),
        (429, openai.RateLimitError),
    ],
)
async def test_an_error_raises_the_clients_own_exception(upstream, tmp_path, status, kind):
    async def reply(call, writer, serial):
        await whole(writer, b'{"error":{"message":"no","type":"t","param":null,"code":"c"}}', status=status)

    upstream.on("m", reply)
    async with running(in_front_of(upstream.url), tmp_path) as node, client_of(node) as client:
        with pytest.raises(kind, match="no"):
            await ask(client, [{"role": "user", "content": "?"}], streamed=False)


async def test_a_stream_that_breaks_off_raises_in_the_client(upstream, tmp_path):
    from tests.fakes.upstream import begin_stream, send_chunk

    async def reply(call, writer, serial):
        await begin_stream(writer)
        for event in chunks_of(chat(call.json, "some words that come"), usage=False)[:3]:
            await send_chunk(writer, event)
        writer.close()

    upstream.on("m", reply)
    async with running(in_front_of(upstream.url), tmp_path) as node, client_of(node) as client:
        with pytest.raises(openai.APIError, match="broke off"):
            await ask(client, [{"role": "user", "content": "?"}], streamed=True)
