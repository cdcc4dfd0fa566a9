"""`/predict/{model}`, declared JSON and GET routes, and text completions."""

from __future__ import annotations

import json

import aiohttp
import pytest
from yarl import URL

from tests.fakes.upstream import whole
from tests.running import in_front_of, running

ROUTES = """
speaks = "json"
[[routes]]
name = "predict"
models = ["*"]
upstream = "fake"
[[routes]]
name = "classify"
kind = "json"
path = "/classify"
upstream = "fake"
[[routes]]
name = "things"
kind = "get"
path = "/things/*"
upstream = "fake"
"""


def base(url: str) -> str:
    return url.removesuffix("/v1")


async def test_predict_takes_any_json_and_remembers_it_in_any_order_of_its_members(upstream, tmp_path):
    async with running(in_front_of(base(upstream.url), ROUTES), tmp_path) as node:
        first = await node.post("/predict/iris", {"a": [1, 2.50], "b": {"x": None}})
        again = await node.send("POST", "/predict/iris", b'{ "b":{"x":null}, "a":[1.0, 2.5] }')
        queried = await node.send("QUERY", "/predict/iris", b'{"a":[1,2.5],"b":{"x":null}}')
        other = await node.post("/predict/iris", {"a": [2.5, 1], "b": {"x": None}})

    assert first.json["echo"] == {"a": [1, 2.5], "b": {"x": None}}
    assert again.is_hit
    assert queried.is_hit
    assert not other.is_hit
    assert upstream.calls[0].target == "/predict/iris"


@pytest.mark.parametrize("member", ["user", "stream", "cache", "metadata", "model", "n", "stop"])
async def test_in_predict_and_json_bodies_every_member_is_an_input(upstream, tmp_path, member):
    async with running(in_front_of(base(upstream.url), ROUTES), tmp_path) as node:
        for path in ("/predict/iris", "/classify"):
            bodies = [{"x": 1}, {"x": 1, member: None}, {"x": 1, member: 1}, {"x": 1, member: {"no-store": True}}]
            answers = [await node.post(path, body) for body in bodies]
            assert not any(a.is_hit for a in answers)
            assert all("stored" in a.cache_status for a in answers)

    assert upstream.calls[-1].json == {"x": 1, member: {"no-store": True}}


@pytest.mark.parametrize("value", [0, "", [], False, None, {}])
async def test_an_answer_that_is_falsy_is_an_answer(upstream, tmp_path, value):
    async def reply(call, writer, serial):
        await whole(writer, json.dumps(value).encode())

    upstream.on("/predict/iris", reply)
    async with running(in_front_of(base(upstream.url), ROUTES), tmp_path) as node:
        await node.post("/predict/iris", {"x": 1})
        again = await node.post("/predict/iris", {"x": 1})

    assert again.is_hit
    assert again.json == value


async def test_a_query_hit_answers_304_to_a_caller_who_has_it(upstream, tmp_path):
    async with running(in_front_of(base(upstream.url), ROUTES), tmp_path) as node:
        await node.post("/predict/iris", {"x": 1})
        hit = await node.send("QUERY", "/predict/iris", b'{"x":1}')
        same = await node.send("QUERY", "/predict/iris", b'{"x":1}', {"if-none-match": hit.headers["etag"]})
        other = await node.send("QUERY", "/predict/iris", b'{"x":1}', {"if-none-match": '"else"'})
        posted = await node.post("/predict/iris", {"x": 1}, {"if-none-match": hit.headers["etag"]})

    assert hit.headers["cache-control"] == "private, no-cache"
    assert hit.headers["etag"].startswith('W/"')
    assert same.status == 304
    assert same.body == b""
    assert other.status == 200
    assert posted.status == 200
    assert posted.headers["cache-control"] == "no-store"


async def test_a_get_route_is_kept_by_its_path_and_query(upstream, tmp_path):
    async def things(call, writer, serial):
        await whole(writer, json.dumps({"target": call.target, "serial": serial}).encode())

    for path in ("/things/a", "/things/b"):
        upstream.on(path, things)
    async with running(in_front_of(base(upstream.url), ROUTES), tmp_path) as node:
        first = await node.send("GET", "/things/a?x=1")
        again = await node.send("GET", "/things/a?x=1")
        head = await node.send("HEAD", "/things/a?x=1")
        others = [await node.send("GET", target) for target in ("/things/a", "/things/b?x=1", "/things/a?x=2")]

    assert again.is_hit
    assert again.json == first.json
    assert head.is_hit
    assert head.body == b""
    assert not any(o.is_hit for o in others)


@pytest.mark.parametrize(
    ("said", "is_kept"),
    [
        ("cache-control: no-store\r\n", False),
        ("cache-control: max-age=0\r\n", False),
        ("cache-control: no-cache\r\n", False),
        ("vary: x-colour\r\n", False),
        ("vary: *\r\n", False),
        ("expires: Thu, 01 Jan 1970 00:00:00 GMT\r\n", False),
        ("cache-control: private, max-age=60\r\n", True),
        ("cache-control: public, s-maxage=0, max-age=60\r\n", True),
        ("vary: accept-language, accept-encoding\r\n", True),
        ("", True),
    ],
)
async def test_a_get_route_obeys_what_its_upstream_says_about_caching(upstream, tmp_path, said, is_kept):
    async def things(call, writer, serial):
        await whole(writer, b'{"a":1}', more=said)

    upstream.on("/things/a", things)
    async with running(in_front_of(base(upstream.url), ROUTES), tmp_path) as node:
        await node.send("GET", "/things/a")
        again = await node.send("GET", "/things/a")

    assert again.is_hit == is_kept
    if "max-age=60" in said:
        assert int(again.cache_status.partition("ttl=")[2].partition(";")[0]) <= 60


async def test_a_model_route_ignores_what_its_upstream_says_about_caching(upstream, tmp_path):
    from tests.fakes.upstream import chat

    async def reply(call, writer, serial):
        await whole(writer, json.dumps(chat(call.json, "x")).encode(), more="cache-control: no-store\r\nvary: *\r\n")

    upstream.on("m", reply)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await node.chat("hello")
        again = await node.chat("hello")

    assert again.is_hit


@pytest.mark.parametrize(
    ("header", "counts"), [("accept-language", True), ("openai-beta", True), ("user-agent", False)]
)
async def test_a_header_that_goes_upstream_is_in_the_key_or_known_to_change_nothing(upstream, tmp_path, header, counts):
    async with running(in_front_of(base(upstream.url), ROUTES), tmp_path) as node:
        await node.post("/classify", {"x": 1}, {header: "one"})
        again = await node.post("/classify", {"x": 1}, {header: "two"})

    assert upstream.calls[0].header(header) == "one"
    assert again.is_hit == (not counts)


async def test_a_set_cookie_is_never_kept(upstream, tmp_path):
    async def reply(call, writer, serial):
        await whole(writer, b'{"a":1}', more="set-cookie: secret=1\r\ncontent-language: vi\r\n")

    upstream.on("/classify", reply)
    async with running(in_front_of(base(upstream.url), ROUTES), tmp_path) as node:
        first = await node.post("/classify", {"x": 1})
        again = await node.post("/classify", {"x": 1})

    assert again.is_hit
    assert "set-cookie" not in first.headers | again.headers
    assert again.headers["content-language"] == "vi"


async def test_a_text_completion_is_one_record_whole_and_streamed(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        asked = {"model": "m", "prompt": "Once upon"}
        whole_miss = await node.post("/v1/completions", asked)
        streamed = await node.post("/v1/completions", {**asked, "stream": True})
        asked["prompt"] = "Twice upon"
        streamed_miss = await node.post("/completions", {**asked, "stream": True})
        whole_hit = await node.post("/v1/completions", asked)

    texts = [
        json.loads(line[6:])["choices"][0]["text"]
        for line in streamed.body.decode().split("\n")
        if line.startswith("data: {")
    ]
    assert streamed.is_hit
    assert whole_hit.is_hit
    assert "".join(texts) == whole_miss.json["choices"][0]["text"]
    assert whole_hit.json["choices"][0]["text"].startswith("Twice upon and so on")
    assert b"[DONE]" in streamed_miss.body


async def test_a_problem_is_told_as_one_where_the_dialect_has_no_error_of_its_own(upstream, tmp_path):
    async with running(in_front_of(base(upstream.url), ROUTES), tmp_path) as node:
        refused = await node.send("POST", "/predict/iris", b"{oops")

    assert refused.status == 400
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json["code"] == "malformed_body"


@pytest.mark.parametrize("said", ["cache-control: no-store\r\n", "vary: x-colour\r\n"])
async def test_stored_is_not_announced_where_the_head_already_forbids_it(upstream, tmp_path, said):
    async def reply(call, writer, serial):
        await whole(writer, b'{"a":1}', more=said)

    upstream.on("/classify", reply)
    async with running(in_front_of(base(upstream.url), ROUTES), tmp_path) as node:
        answered = await node.post("/classify", {"x": 1})

    assert "stored" not in answered.cache_status


@pytest.mark.parametrize("framed", [True, False])
async def test_what_no_tier_takes_is_not_told_to_be_stored(upstream, tmp_path, framed):
    async def long(call, writer, serial):
        body = json.dumps({"x": "y" * 1_500_000}).encode()
        if framed:
            await whole(writer, body)
        else:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
            writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
            await writer.drain()

    upstream.on("/classify", long)
    tiers = "[[tiers]]\nstore = 'memory'\nlimit = '64 MiB'\n"
    async with running(in_front_of(base(upstream.url), ROUTES + tiers), tmp_path) as node:
        first = await node.post("/classify", {"a": 1})
        again = await node.post("/classify", {"a": 1})
        stats = await node.stats()

    if framed:
        assert "stored" not in first.cache_status
    assert not again.is_hit
    assert stats["tiers"][0]["held_bytes"] == 0


@pytest.mark.parametrize(
    "target",
    [
        "/things/a?x=%2B+%20%26%3D%3B%23",
        "/things/a?x=a%2fb",
        "/things/a?x=%zz",
        "/things/a?x=a|b%22c",
        "/things/%7Eb%2d?u=%c3%a9",
        "/things/a+b",
        "/things/a%20b?c",
        "/things/a%25b/%3Fc?d=e?f",
        "/things/a%253B",
        "/things//x/?&&",
    ],
)
async def test_path_and_query_string_go_upstream_as_they_came(upstream, tmp_path, target):
    async with running(in_front_of(base(upstream.url), ROUTES), tmp_path) as node, aiohttp.ClientSession() as session:
        upstream.on(target.partition("?")[0], _empty_object)
        async with session.get(URL(node.url + target, encoded=True)) as response:
            assert response.status == 200

    assert upstream.calls[0].target == target


async def _empty_object(call, writer, serial):
    await whole(writer, b"{}")
