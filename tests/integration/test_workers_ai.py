"""`/ai/run/{model}`: Workers AI's shapes in front of any model, from the same records as the equal chat (rule R3)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import aiohttp
import cloudflare
import pytest

from tests.asking import chat_body
from tests.fakes.upstream import begin_stream, chat, chunks_of, send_chunk, stream, text_for, whole
from tests.running import in_front_of, running

ROOT = Path(__file__).parents[2]
LLAMA = "@cf/meta/llama-3.1-8b-instruct"
PATH = f"/ai/run/{LLAMA}"
USAGE = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
CALL = {"id": "call_0123456789abcdef", "type": "function", "function": {"name": "f", "arguments": '{"x": 1.0}'}}


def asks(text: str, **members) -> dict:
    return {"messages": [{"role": "user", "content": text}], **members}


def said(answered) -> list[dict]:
    """The events of a stream but its `[DONE]`, which must be its last."""
    *events, done = answered.body.decode().removesuffix("\n\n").split("\n\n")
    assert done == "data: [DONE]"
    return [json.loads(event.removeprefix("data: ")) for event in events]


def answer_text(text: str, serial: int = 1) -> str:
    return f"You said {text!r}. This is call {serial}."


@pytest.mark.parametrize("asked", [{"prompt": "hello"}, asks("hello")])
async def test_a_whole_answer_has_their_envelope_on_miss_and_hit(upstream, tmp_path, asked):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        miss = await node.post(PATH, asked)
        hit = await node.post(PATH, asked)

    assert (miss.status, miss.is_hit, hit.is_hit) == (200, False, True)
    assert miss.json == {
        "result": {"response": answer_text("hello"), "finish_reason": "stop", "usage": USAGE},
        "success": True,
        "errors": [],
        "messages": [],
    }
    assert hit.body == miss.body
    assert hit.headers["content-type"] == "application/json"
    assert upstream.calls[0].target == "/v1/chat/completions"
    assert upstream.calls[0].json == {"messages": asks("hello")["messages"], "model": LLAMA}


async def test_a_stream_has_their_events_on_miss_and_hit_and_usage_in_the_last(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        miss = await node.post(PATH, asks("hello", stream=True))
        hit = await node.post(PATH, asks("hello", stream=True))

    assert (miss.is_hit, hit.is_hit) == (False, True)
    assert miss.headers["content-type"].startswith("text/event-stream")
    *pieces, last = said(miss)
    assert "".join(piece["response"] for piece in pieces) == answer_text("hello")
    assert len(pieces) > 3
    assert last == {"response": "", "finish_reason": "stop", "usage": USAGE}
    assert hit.body == miss.body


async def test_it_has_the_records_of_the_equal_chat_and_the_chat_has_its(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await node.post(PATH, {"prompt": "one", "max_tokens": 9, "temperature": 0.5})
        by_chat = await node.post(
            "/v1/chat/completions", {"model": LLAMA, **asks("one", temperature=0.5, max_tokens=9, stream=True)}
        )
        await node.post("/v1/chat/completions", {"model": LLAMA, **asks("two", stream=True)})
        by_run = await node.post(PATH, {"prompt": "two"})
        streamed = await node.post(PATH, {"prompt": "two", "stream": True})
        other = await node.post(PATH, {"prompt": "two", "max_tokens": 3})

    assert by_chat.is_hit
    assert by_chat.text == answer_text("one")
    assert by_run.is_hit
    assert by_run.json["result"]["response"] == answer_text("two", 2)
    assert streamed.is_hit
    assert not other.is_hit


async def test_callers_of_both_dialects_share_one_call_to_the_origin(upstream, tmp_path):
    gate = asyncio.Event()

    async def stepwise(call, writer, serial):
        async def between(i):
            if i == 2:
                await asyncio.wait_for(gate.wait(), 20)

        await stream(writer, chunks_of(chat(call.json, text_for(call.json, serial)), usage=True), between=between)

    upstream.on("m", stepwise)
    async with running(in_front_of(upstream.url), tmp_path) as node, aiohttp.ClientSession() as session:
        async with session.post(f"{node.url}/ai/run/m", json=asks("hello", stream=True)) as response:
            first = await asyncio.wait_for(response.content.readuntil(b"\n\n"), 20)
            joining = asyncio.create_task(node.chat("hello"))
            folding = asyncio.create_task(node.post("/ai/run/m", asks("hello")))
            gate.set()
            rest = await response.content.read()
        chatted, folded = await joining, await folding

    assert first.startswith(b'data: {"response":"')
    assert rest.endswith(b"data: [DONE]\n\n")
    assert chatted.text == answer_text("hello")
    assert folded.json["result"]["response"] == answer_text("hello")
    assert len(upstream.calls) == 1


async def test_a_model_is_named_with_slashes_or_their_escapes_and_below_an_account(upstream, tmp_path):
    paths = [
        PATH,
        "/ai/run/%40cf%2Fmeta%2Fllama-3.1-8b-instruct",
        f"/accounts/0123/ai/run/{LLAMA}",
        f"/client/v4/accounts/0123/ai/run/{LLAMA}",
    ]
    async with running(in_front_of(upstream.url), tmp_path) as node:
        answers = [await node.post(path, {"prompt": "hello"}) for path in paths]
        odd = [
            await node.post(path, {"prompt": "hello"})
            for path in ("/accounts/../ai/run/m", "/ai/run/..%2Fm", "/ai/run/a%5Cb", "/ai/run/a%zz")
        ]

    assert [a.is_hit for a in answers] == [False, True, True, True]
    assert [a.status for a in odd] == [400] * 4
    assert upstream.calls[0].json["model"] == LLAMA


async def test_the_official_client_can_use_a_node(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        client = cloudflare.AsyncCloudflare(base_url=f"{node.url}/client/v4", api_token="secret")
        async with client:
            told = [await client.ai.run(LLAMA, account_id="0123", prompt="hello") for _ in range(2)]
            with pytest.raises(cloudflare.BadRequestError) as refused:
                await client.ai.run(LLAMA, account_id="0123", prompt="")
        counted = (await node.stats())["how"]

    assert [answer["response"] for answer in told] == [answer_text("hello")] * 2
    assert counted["hit"] == 1
    assert refused.value.errors[0].code == 5006


EDGE_READS = """
import { openAiEvents, openAiWhole } from "NATIVE";

const { whole, transcript } = JSON.parse(await new Response(process.stdin).text());
const asked = { operation: "chat", model: "m", body: new TextEncoder().encode("{}") };
const told = openAiWhole(whole.result, asked, 0).choices[0].message.content;
let streamed = "";
for await (const piece of openAiEvents([new TextEncoder().encode(transcript)], asked, 0)) {
  streamed += new TextDecoder().decode(piece);
}
console.log(JSON.stringify({ told, streamed }));
"""


async def test_the_edges_reader_of_workers_ai_reads_a_node(upstream, tmp_path):
    """Its origin for Cloudflare's own models, worker/src/origins/native.js, as it is."""
    async with running(in_front_of(upstream.url), tmp_path) as node:
        whole_one = await node.post(PATH, asks("Chào bạn 👋"))
        streamed = await node.post(PATH, asks("Chào bạn 👋", stream=True))
    sent = json.dumps({"whole": whole_one.json, "transcript": streamed.body.decode()})
    program = EDGE_READS.replace("NATIVE", (ROOT / "worker/src/origins/native.js").as_uri())

    read = await asyncio.create_subprocess_exec(
        "node",
        "--input-type=module",
        "--eval",
        program,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    told = json.loads((await asyncio.wait_for(read.communicate(sent.encode()), 60))[0])

    events = [json.loads(e[6:]) for e in told["streamed"].split("\n\n") if e.startswith("data: {")]
    assert told["told"] == answer_text("Chào bạn 👋")
    assert "".join(e["choices"][0]["delta"].get("content", "") for e in events) == answer_text("Chào bạn 👋")
    assert told["streamed"].endswith("data: [DONE]\n\n")


async def test_calls_come_in_one_piece_with_their_arguments_read(upstream, tmp_path):
    async def calls(call, writer, serial):
        told = chat(call.json, None, calls=[CALL], finish="tool_calls")
        if call.json.get("stream"):
            await stream(writer, chunks_of(told, usage=True))
        else:
            await whole(writer, json.dumps(told).encode())

    upstream.on("m", calls)
    bare = {"name": "f", "description": "d", "parameters": {"type": "object"}}
    async with running(in_front_of(upstream.url), tmp_path) as node:
        miss = await node.post("/ai/run/m", asks("a", tools=[bare]))
        hit = await node.post("/ai/run/m", asks("a", tools=[bare], stream=True))
        live = await node.post("/ai/run/m", asks("b", tools=[bare], stream=True))
        by_chat = await node.chat("a", tools=[{"type": "function", "function": bare}])

    named = {"name": "f", "arguments": {"x": 1.0}}
    assert miss.json["result"]["tool_calls"] == [named]
    assert miss.json["result"]["response"] is None
    assert b'"x":1.0' in miss.body
    assert hit.is_hit
    assert said(hit)[-1]["tool_calls"] == [named]
    assert said(live)[-1] == {"response": "", "tool_calls": [named], "finish_reason": "tool_calls", "usage": USAGE}
    assert by_chat.is_hit
    assert upstream.calls[0].json["tools"] == [{"type": "function", "function": bare}]


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"prompt": 1}, "prompt"),
        ({"prompt": ""}, "not empty"),
        ({"prompt": "a", "messages": []}, "not both"),
        ({"text": ["a"]}, "`text`"),
        ({"prompt": "a", "raw": True}, "`raw`"),
        ({"prompt": "a", "lora": "x"}, "`lora`"),
        ({"prompt": "a", "n": 2}, "`n`"),
        ([], "object"),
    ],
)
async def test_what_a_chat_cannot_ask_is_refused_in_their_shape(upstream, tmp_path, asked, named):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        refused = await node.post("/ai/run/m", asked)

    assert refused.status == 400
    assert refused.json["result"] is None
    assert refused.json["success"] is False
    assert refused.json["errors"][0]["code"] == 5006
    assert named in refused.json["errors"][0]["message"]
    assert upstream.calls == []


async def test_an_unknown_model_and_a_wrong_key_are_told_by_their_numbers(upstream, tmp_path):
    routes = '[[routes]]\nname = "one"\nmodels = ["m"]\nupstream = "fake"\n'
    keys = f'[[api_keys]]\ntenant = "t"\nsha256 = "{"0" * 64}"\n'
    async with running(in_front_of(upstream.url, routes), tmp_path / "a") as node:
        unknown = await node.post(PATH, {"prompt": "a"})
        method = await node.send("GET", PATH)
    async with running(in_front_of(upstream.url, keys), tmp_path / "b") as node:
        stranger = await node.post(PATH, {"prompt": "a"})

    assert (unknown.status, unknown.json["errors"][0]["code"]) == (404, 5007)
    assert LLAMA in unknown.json["errors"][0]["message"]
    assert (stranger.status, stranger.json["errors"][0]["code"]) == (401, 10000)
    assert method.status == 405


@pytest.mark.parametrize(("status", "code"), [(400, 5006), (429, 3040), (500, 3043), (503, 3040)])
async def test_an_upstreams_error_is_told_in_their_shape_with_its_status_and_words(upstream, tmp_path, status, code):
    async def fails(call, writer, serial):
        body = json.dumps({"error": {"message": "so it is", "type": "x", "code": "y"}}).encode()
        await whole(writer, body, status=status)

    upstream.on("m", fails)
    async with running(in_front_of(upstream.url, "retries = 0\n"), tmp_path) as node:
        answers = [await node.post("/ai/run/m", asks("a", stream=s)) for s in (False, True, False)]
        by_chat = await node.chat("a")

    for answered in answers:
        assert answered.status == status
        assert answered.headers["content-type"] == "application/json"
        assert answered.json["errors"] == [{"code": code, "message": "so it is"}]
    assert by_chat.json["error"]["message"] == "so it is"


async def test_a_stream_that_breaks_off_tells_an_error_in_their_shape_and_no_end(upstream, tmp_path):
    async def breaks_off(call, writer, serial):
        await begin_stream(writer)
        for event in chunks_of(chat(call.json, "some words"), usage=False)[:3]:
            await send_chunk(writer, event)
        writer.close()

    upstream.on("m", breaks_off)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        answered = await node.post("/ai/run/m", asks("a", stream=True))
        again = await node.post("/ai/run/m", asks("a"))

    events = [json.loads(e.removeprefix("data: ")) for e in answered.body.decode().split("\n\n") if e]
    assert events[0] == {"response": "some "}
    assert events[-1]["success"] is False
    assert "broke off" in events[-1]["errors"][0]["message"]
    assert again.status == 502
    assert again.json["success"] is False


async def test_an_answer_that_is_no_chat_is_an_error_in_their_shape(upstream, tmp_path):
    async def odd(call, writer, serial):
        await whole(writer, b'{"choices": [{"message": 5}]}')

    async def told_with_200(call, writer, serial):
        await whole(writer, b'{"error": {"message": "quota"}}')

    upstream.on("odd", odd)
    upstream.on("error", told_with_200)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        answers = [
            await node.post(f"/ai/run/{model}", asks("a", stream=s))
            for model in ("odd", "error")
            for s in (False, True)
        ]

    assert [a.status for a in answers] == [502] * 4
    assert all(a.json["success"] is False for a in answers)
    assert answers[3].json["errors"][0]["message"] == "quota"


async def test_what_passes_has_their_shapes_too(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        no_store = {"cache-control": "no-store"}
        whole_one = await node.post(PATH, asks("a"), no_store)
        streamed = await node.post(PATH, asks("a", stream=True), no_store)

    assert "bypass" in whole_one.cache_status
    assert whole_one.json["result"]["response"] == answer_text("a")
    assert "".join(e["response"] for e in said(streamed)) == answer_text("a", 2)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"prompt": "a", "prompt": "b"}', "unkeyable-repeat"),
        (b'{"prompt": "\\ud83d"}', "unkeyable-surrogate"),
        (b'{"prompt": "a", "seed": 1e16}', "unkeyable-number"),
        (b'{"prompt": "a", "tools": [{"type": "web_search"}]}', "remote-tool"),
    ],
)
async def test_what_has_no_key_as_a_chat_has_none_here(upstream, tmp_path, body, why):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        answers = [await node.send("POST", "/ai/run/m", body) for _ in range(2)]

    for answered in answers:
        assert answered.status == 200
        assert f"detail={why}" in answered.cache_status
        assert answered.json["success"] is True
    assert len(upstream.calls) == 2


async def test_a_negative_record_is_told_in_their_shape(upstream, tmp_path):
    async def bad(call, writer, serial):
        await whole(writer, b'{"error": {"message": "no such thing", "type": "x"}}', status=400)

    upstream.on("m", bad)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await node.chat("a")
        negative = await node.post("/ai/run/m", asks("a"))

    assert "negative" in negative.cache_status
    assert (negative.status, negative.json["errors"][0]["message"]) == (400, "no such thing")
    assert len(upstream.calls) == 1


async def test_callers_who_are_given_both_dialects_never_get_each_others_shape(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        for _ in range(3):
            by_run = await node.post("/ai/run/m", asks("a"))
            by_chat = await node.post("/v1/chat/completions", chat_body("a"))
            in_events = await node.post("/ai/run/m", asks("a", stream=True))
            assert "result" in by_run.json
            assert "choices" in by_chat.json
            assert said(in_events)[-1]["response"] == ""
        queried = await node.send("QUERY", "/ai/run/m", json.dumps(asks("a")).encode())
        confirmed = await node.send(
            "QUERY", "/ai/run/m", json.dumps(asks("a")).encode(), {"if-none-match": queried.headers["etag"]}
        )
        other = await node.send(
            "QUERY",
            "/v1/chat/completions",
            json.dumps(chat_body("a")).encode(),
            {"if-none-match": queried.headers["etag"]},
        )

    assert confirmed.status == 304
    assert other.status == 200
    assert len(upstream.calls) == 1
