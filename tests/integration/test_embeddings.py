"""Embeddings: one query for each input, one answer for each request, over real sockets (rule P5)."""

from __future__ import annotations

import asyncio
import json
from array import array
from typing import Any

import openai
import pytest

from tests.clock import Clock
from tests.fakes.embeddings import embed, embed_once, embed_with
from tests.fakes.upstream import FakeUpstream, whole
from tests.fakes.vectors import embeddings, vector
from tests.running import Answered, Client, in_front_of, running
from tests.waiting import until


def asking(given: Any, **members: Any) -> dict[str, Any]:
    return {"model": "m", "input": given, **members}


async def embedded(node: Client, given: Any, headers: Any = None, **members: Any) -> Answered:
    return await node.post("/v1/embeddings", asking(given, **members), headers)


def rounded(text: str) -> list[float]:
    """The vector of a text as float32, which is what base64 tells."""
    return list(array("f", vector(text)))


def status(answered: Answered) -> str:
    """Our member of Cache-Status, without its key and its time to live."""
    parts = answered.cache_status.split("; ")[1:]
    return "; ".join(part for part in parts if not part.startswith(("key=", "ttl=")))


async def test_one_input_alone_is_kept_and_hits(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        first, second, third = [await embedded(node, given) for given in ("a", "a", ["a"])]

    assert status(first) == "fwd=uri-miss; stored"
    assert status(second) == status(third) == "hit"
    assert first.body == second.body == third.body
    assert first.json == embeddings(asking("a"))
    assert len(upstream.calls) == 1


async def test_a_request_that_one_call_answers_gets_its_bytes_and_its_usage(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        first = await embedded(node, ["a", "bbb", [1, 2]])

    assert status(first) == "fwd=uri-miss; stored"
    assert first.body == json.dumps(embeddings(asking(["a", "bbb", [1, 2]]))).encode()
    assert "foretold-usage" not in first.headers


async def test_only_what_is_missing_is_asked_in_one_call_each_once_in_the_order_asked(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await embedded(node, ["kept", "also"])
        given = ["new", "kept", "newer", "new", "also", [7]]
        mixed = await embedded(node, given, dimensions=None)
        again = await embedded(node, given)

    assert status(mixed) == 'fwd=partial; stored; detail="2/6"'
    assert [call.json["input"] for call in upstream.calls] == [["kept", "also"], ["new", "newer", [7]]]
    assert [item["index"] for item in mixed.json["data"]] == [0, 1, 2, 3, 4, 5]
    assert [item["embedding"] for item in mixed.json["data"]] == [vector(text) for text in given]
    assert status(again) == "hit"
    assert again.json["data"] == mixed.json["data"]


async def test_an_answer_put_together_is_the_uncached_one_but_for_usage_which_says_so(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await embedded(node, ["aa", "bbbb"])
        mixed = await embedded(node, ["bbbb", "cc"])
        alone = await embedded(node, "bbbb")

    assert mixed.json == embeddings(asking(["bbbb", "cc"]))
    assert mixed.headers["foretold-usage"] == alone.headers["foretold-usage"] == "estimated"
    assert alone.json["usage"] == {"prompt_tokens": 4, "total_tokens": 4}


async def test_usage_of_single_calls_adds_up_exactly(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        for text in ("a", "bbb"):
            await embedded(node, text)
        both = await embedded(node, ["bbb", "a"])
        more = await embedded(node, ["a", "cc", "dd"])

    assert both.json["usage"]["total_tokens"] == 4
    assert more.json["usage"]["total_tokens"] == 5
    assert "foretold-usage" not in both.headers
    assert "foretold-usage" not in more.headers


@pytest.mark.parametrize("given", ["a", ["a", "b"]], ids=["one", "two"])
@pytest.mark.parametrize("forms", [("float", "base64"), ("base64", "float")], ids=str)
async def test_a_hit_gives_the_form_that_is_asked_for(upstream, tmp_path, given, forms):
    first, second = forms
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await embedded(node, given, encoding_format=first)
        other = await embedded(node, given, encoding_format=second)
        one = await embedded(node, "a", encoding_format=second)

    assert status(other) == status(one) == "hit"
    uncached = embeddings(asking(given, encoding_format=second))
    assert other.json["data"] == uncached["data"]
    assert one.json["data"] == embeddings(asking("a", encoding_format=second))["data"]
    assert len(upstream.calls) == 1


async def test_the_official_client_reads_misses_hits_and_mixtures_alike(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        client = openai.AsyncOpenAI(base_url=f"{node.url}/v1", api_key="sk-test", max_retries=0)
        async with client:
            await client.embeddings.create(model="m", input="b")
            for _ in range(2):
                told = await client.embeddings.create(model="m", input=["a", "b", "c"])
                floats = await client.embeddings.create(model="m", input=["c", "a"], encoding_format="float")

                assert [list(array("f", item.embedding)) for item in told.data] == [rounded(text) for text in "abc"]
                assert [item.index for item in told.data] == [0, 1, 2]
                assert [item.embedding for item in floats.data] == [vector(text) for text in "ca"]
    assert upstream.calls[0].json["encoding_format"] == "base64"
    assert len(upstream.calls) == 2


async def test_dimensions_count_and_user_does_not(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await embedded(node, ["a", "b"], dimensions=8)
        same = await embedded(node, ["b", "a"], dimensions=8, user="u")
        other = await embedded(node, ["a", "b"], dimensions=4)

    assert status(same) == "hit"
    assert status(other) == "fwd=uri-miss; stored"


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ("", "input"),
        ([], "input"),
        (["a", ""], "input[1]"),
        ([[1], []], "input[1]"),
        (["a", 1.5], "input[1]"),
        (["a"] * 2049, "input"),
        (None, "input"),
    ],
    ids=str,
)
async def test_an_input_that_is_none_is_refused_by_its_place(upstream, tmp_path, given, param):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        refused = await embedded(node, given)

    assert refused.status == 400
    assert refused.json["error"]["param"] == param
    assert refused.json["error"]["type"] == "invalid_request_error"
    assert upstream.calls == []


async def test_as_many_inputs_as_there_may_be_are_answered_and_hit(upstream, tmp_path):
    given = [f"text {number}" for number in range(2048)]
    async with running(in_front_of(upstream.url), tmp_path) as node:
        first = await embedded(node, given)
        second = await embedded(node, list(reversed(given)))

    assert [item["embedding"] for item in first.json["data"]] == [vector(text) for text in given]
    assert status(second) == "hit"
    assert [item["embedding"] for item in second.json["data"]] == [vector(text) for text in reversed(given)]


async def test_a_herd_of_equal_requests_is_one_call(upstream, tmp_path):
    may_go_on = asyncio.Event()
    upstream.on("m", embed_once(may_go_on))
    async with running(in_front_of(upstream.url), tmp_path) as node:
        herd = [asyncio.create_task(embedded(node, ["a", "b"])) for _ in range(20)]
        await upstream.called(1)
        await until(lambda: sum(len(flight.riders) for flight in node.node.flights._all) == 40)
        may_go_on.set()
        answers = await asyncio.gather(*herd)
        told = await node.stats()

    assert len(upstream.calls) == 1
    assert {answer.body for answer in answers} == {answers[0].body}
    assert sorted({status(answer) for answer in answers}) == ["fwd=uri-miss; collapsed", "fwd=uri-miss; stored"]
    assert told["how"] == {"hit": 0, "stale": 0, "collapsed": 19, "miss": 1, "pass": 0, "error": 0}
    assert told["received"] == 20


async def test_an_input_in_the_air_is_joined_alone_or_among_others(upstream, tmp_path):
    may_go_on = asyncio.Event()
    upstream.on("m", embed_once(may_go_on))
    async with running(in_front_of(upstream.url), tmp_path) as node:
        first = asyncio.create_task(embedded(node, ["a", "b"]))
        await upstream.called(1)
        alone = asyncio.create_task(embedded(node, "b", encoding_format="base64"))
        others = asyncio.create_task(embedded(node, ["c", "a"]))
        await upstream.called(2)
        await until(lambda: sum(len(flight.riders) for flight in node.node.flights._all) == 5)
        may_go_on.set()
        one, two, three = await asyncio.gather(first, alone, others)

    assert [call.json["input"] for call in upstream.calls] == [["a", "b"], ["c"]]
    assert one.json == embeddings(asking(["a", "b"]))
    assert two.json["data"] == embeddings(asking("b", encoding_format="base64"))["data"]
    assert three.json["data"] == embeddings(asking(["c", "a"]))["data"]
    assert status(two) == "fwd=uri-miss; collapsed"
    assert status(three) == "fwd=uri-miss; stored"


async def test_a_call_goes_on_while_anybody_waits_for_any_of_it_and_stops_with_the_last(upstream, tmp_path):
    may_go_on = asyncio.Event()
    upstream.on("m", embed_once(may_go_on))
    async with running(in_front_of(upstream.url), tmp_path) as node:
        leader = asyncio.create_task(embedded(node, ["a", "b"]))
        await upstream.called(1)
        follower = asyncio.create_task(embedded(node, "b"))
        await until(lambda: sum(len(flight.riders) for flight in node.node.flights._all) == 3)
        leader.cancel()
        await until(lambda: len(node.node.flights) == 1)
        assert not upstream.calls[0].cut.is_set()
        follower.cancel()
        await asyncio.wait_for(upstream.calls[0].cut.wait(), 20)
        await until(lambda: len(node.node.flights) == 0)
        told = await node.stats()

    assert told["ended"]["gone"] == 2
    assert told["stored"] == 0


@pytest.mark.parametrize("code", [400, 429, 500])
async def test_an_error_goes_to_all_callers_as_it_came_and_nothing_is_kept(upstream, tmp_path, code):
    may_go_on = asyncio.Event()
    body = json.dumps({"error": {"message": "no", "type": "t", "param": None, "code": "c"}}).encode()

    async def refuse(call, writer, serial):
        await may_go_on.wait()
        await whole(writer, body, status=code)

    async with running(in_front_of(upstream.url), tmp_path) as node:
        await embedded(node, ["kept"])
        upstream.on("m", refuse)
        herd = [asyncio.create_task(embedded(node, ["kept", "a", "b"])) for _ in range(5)]
        await upstream.called(2)
        await until(lambda: sum(len(flight.riders) for flight in node.node.flights._all) == 10)
        may_go_on.set()
        answers = await asyncio.gather(*herd)
        calls = len(upstream.calls)
        upstream.on("m", embed)
        told = await node.stats()

    assert {answer.status for answer in answers} == {code}
    assert {answer.body for answer in answers} == {body}
    assert calls == (2 if code in (400, 500) else calls)
    assert told["stored"] == 1


async def test_one_bad_input_spoils_no_request_that_did_not_ask_for_it(upstream, tmp_path):
    may_go_on = asyncio.Event()

    async def picky(call, writer, serial):
        if "bad" in call.json["input"]:
            await may_go_on.wait()
            await whole(writer, b'{"error":{"message":"input[1] is bad"}}', status=400)
        else:
            await embed(call, writer, serial)

    upstream.on("m", picky)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        spoilt = asyncio.create_task(embedded(node, ["a", "bad"]))
        await upstream.called(1)
        alone = asyncio.create_task(embedded(node, "a"))
        others = asyncio.create_task(embedded(node, ["c", "a"]))
        await upstream.called(2)
        await until(lambda: sum(len(flight.riders) for flight in node.node.flights._all) >= 4)
        may_go_on.set()
        answers = await asyncio.gather(spoilt, alone, others)

    assert [answer.status for answer in answers] == [400, 200, 200]
    assert answers[1].json == embeddings(asking("a"))
    assert answers[2].json["data"] == embeddings(asking(["c", "a"]))["data"]


def _change(**members: Any) -> Any:
    return lambda told: {**told, **members}


def _items(change: Any) -> Any:
    return lambda told: {**told, "data": change(told["data"])}


WRONG = {
    "count": _items(lambda data: data[:-1]),
    "index": _items(lambda data: [{**item, "index": 0} for item in data]),
    "shape": _items(lambda data: [{**item, "embedding": []} for item in data]),
    "lengths": _items(lambda data: [data[0], {**data[1], "embedding": [0.5]}]),
    "error": _change(error={"message": "no"}),
}


@pytest.mark.parametrize("why", WRONG)
async def test_an_answer_that_is_not_one_for_each_input_goes_through_and_is_not_kept(upstream, tmp_path, why):
    upstream.on("m", embed_with(WRONG[why]))
    async with running(in_front_of(upstream.url), tmp_path) as node:
        first = await embedded(node, ["a", "b"])
        upstream.on("m", embed)
        second = await embedded(node, ["a", "b"])

    assert status(first) == f"fwd=uri-miss; detail=not-kept-{why}"
    assert first.json == WRONG[why](embeddings(asking(["a", "b"])))
    assert status(second) == "fwd=uri-miss; stored"


async def test_a_wrong_answer_to_what_is_missing_is_asked_whole_and_goes_through(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await embedded(node, "a")
        upstream.on("m", embed_with(lambda told: WRONG["count"](told) if len(told["data"]) == 2 else told))
        mixed = await embedded(node, ["a", "b", "c"])

    assert status(mixed) == "fwd=bypass; detail=not-kept-count"
    assert mixed.json == embeddings(asking(["a", "b", "c"]))


async def test_indexes_out_of_order_are_put_in_order_in_records_and_left_as_they_are_when_fresh(upstream, tmp_path):
    upstream.on("m", embed_with(_items(lambda data: list(reversed(data)))))
    async with running(in_front_of(upstream.url), tmp_path) as node:
        fresh = await embedded(node, ["a", "b", "c"])
        kept = await embedded(node, ["a", "b", "c"])

    assert [item["index"] for item in fresh.json["data"]] == [2, 1, 0]
    assert kept.json == embeddings(asking(["a", "b", "c"]))


@pytest.mark.parametrize("text", ["NaN", "1e400", "-Infinity", "1e39"])
async def test_a_number_that_is_no_float_is_not_kept(upstream, tmp_path, text):
    async def reply(call, writer, serial):
        told = json.dumps(embeddings(call.json)).replace("[", "[" + text + ", ").replace(text + ", {", "{")
        await whole(writer, told.encode())

    upstream.on("m", reply)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        answers = [await embedded(node, given) for given in ("a", ["a", "b"])]
        told = await node.stats()

    assert all(text.encode() in answer.body for answer in answers)
    assert all("detail=not-kept-" in answer.cache_status for answer in answers)
    assert told["stored"] == 0


async def test_an_answer_cut_in_the_middle_is_an_error_and_not_kept(upstream, tmp_path):
    async def cut(call, writer, serial):
        body = json.dumps(embeddings(call.json)).encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body))
        writer.write(body[:40])
        writer.close()

    upstream.on("m", cut)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        broken = await embedded(node, ["a", "b"])
        upstream.on("m", embed)
        good = await embedded(node, ["a", "b"])

    assert broken.status == 502
    assert good.json == embeddings(asking(["a", "b"]))


async def test_controls_hold_for_all_inputs_together(upstream, tmp_path):
    only = {"cache-control": "only-if-cached"}
    async with running(in_front_of(upstream.url), tmp_path) as node:
        nothing = await embedded(node, ["a", "b"], only)
        await embedded(node, ["a", "b"], {"cache-control": "no-store"})
        still = await embedded(node, ["a", "b"], only)
        await embedded(node, ["a"])
        half = await embedded(node, ["a", "b"], only)
        fresh = await embedded(node, ["a", "b"], {"cache-control": "no-cache"})
        all_there = await embedded(node, ["b", "a"], only)
        sample = await embedded(node, ["a", "b"], {"foretold-sample": "1"})
        child = await embedded(node, ["a", "b"], {"foretold-namespace": "child"})

    assert [answer.status for answer in (nothing, still, half)] == [504] * 3
    assert status(fresh) == "fwd=request; stored"
    assert status(all_there) == "hit"
    assert status(sample) == status(child) == "fwd=uri-miss; stored"
    assert [call.json["input"] for call in upstream.calls] == [["a", "b"], ["a"], ["a", "b"], ["a", "b"], ["a", "b"]]


async def test_a_purged_tag_is_asked_again(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await embedded(node, ["a", "b"], {"foretold-tags": "docs"})
        await embedded(node, ["c"])
        await node.purge(tag="docs", of_tenant="local:")
        after = await embedded(node, ["a", "c", "b"])

    assert status(after) == 'fwd=partial; stored; detail="1/3"'
    assert upstream.calls[-1].json["input"] == ["a", "b"]


async def test_each_input_has_its_own_time(upstream, tmp_path):
    clock = Clock()
    settings = in_front_of(upstream.url)
    async with running(settings, tmp_path, now_ms=clock, monotonic_ms=clock) as node:
        await embedded(node, ["a"])
        clock.forward(s=100)
        await embedded(node, ["b"], {"foretold-ttl": "1000"})
        both = await embedded(node, ["a", "b"])
        clock.forward(s=50)
        within = await embedded(node, ["a", "b"], {"cache-control": "max-age=60"})

    assert both.headers["age"] == "100"
    assert "ttl=1000" in both.cache_status
    assert status(within) == 'fwd=partial; stored; detail="1/2"'
    assert upstream.calls[-1].json["input"] == ["a"]


async def test_stale_vectors_are_given_at_once_and_fetched_anew_in_one_call(upstream, tmp_path):
    clock = Clock()
    async with running(in_front_of(upstream.url), tmp_path, now_ms=clock, monotonic_ms=clock) as node:
        await embedded(node, ["a", "b"])
        clock.forward(s=86_400 + 10)
        stale = await embedded(node, ["a", "b"])
        await upstream.called(2)
        await until(lambda: len(node.node.flights) == 0)
        fresh = await embedded(node, ["a", "b"])
        told = await node.stats()

    assert "; hit; ttl=-10" in stale.cache_status
    assert upstream.calls[1].json["input"] == ["a", "b"]
    assert "; hit; ttl=86400" in fresh.cache_status
    assert told["how"]["stale"] == 1


async def test_stale_vectors_stand_in_for_a_failing_origin_if_there_is_one_for_all(upstream, tmp_path):
    clock = Clock()
    async with running(in_front_of(upstream.url), tmp_path, now_ms=clock, monotonic_ms=clock) as node:
        await embedded(node, ["a", "b"])
        clock.forward(s=3 * 86_400)
        await embedded(node, ["c"])
        await upstream.refuse()
        stale = await embedded(node, ["a", "c", "b"])
        clock.forward(s=5)
        lacking = await embedded(node, ["a", "d"])

    assert stale.status == 200
    assert "stale-if-error" in stale.cache_status
    assert stale.json["data"] == embeddings(asking(["a", "c", "b"]))["data"]
    assert lacking.status == 502


async def test_a_fallback_answers_all_inputs_or_none_and_is_not_kept(upstream, tmp_path):
    async with FakeUpstream() as other:
        other.on("m", embed_with(lambda told: {**told, "model": "other"}))
        settings = f"""
            [upstreams.fake]
            url = "{upstream.url}"
            [upstreams.other]
            url = "{other.url}"
            [[routes]]
            name = "r"
            models = ["*"]
            upstream = "fake"
            fallback = ["other"]
        """
        async with running(settings, tmp_path) as node:
            await embedded(node, ["a"])
            await upstream.refuse()
            mixed = await embedded(node, ["a", "b"])
            fresh = await embedded(node, ["c", "d"])
            told = await node.stats()

    assert other.calls[-1].json["input"] == ["c", "d"]
    assert ["a", "b"] in [call.json["input"] for call in other.calls]
    for answer in (mixed, fresh):
        assert answer.json["model"] == "other"
        assert answer.headers["foretold-fallback"] == "other"
        assert "detail=fallback" in answer.cache_status
    assert told["stored"] == 1


async def test_forms_nobody_knows_pass(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        odd = [
            await embedded(node, ["a", "b"], encoding_format="bits"),
            await embedded(node, "a", output_dtype="int8"),
        ]

    assert {status(answer) for answer in odd} == {"fwd=bypass; detail=encoding-format"}


async def test_an_upstream_that_knows_no_base64_is_read_all_the_same(upstream, tmp_path):
    async def only_floats(call, writer, serial):
        await whole(writer, json.dumps(embeddings({**call.json, "encoding_format": "float"})).encode())

    upstream.on("m", only_floats)
    async with running(in_front_of(upstream.url), tmp_path) as node:
        answers = [await embedded(node, given, encoding_format="base64") for given in ("a", "a", ["b", "c"], ["c"])]

    for answer, given in zip(answers, ("a", "a", ["b", "c"], ["c"]), strict=True):
        assert answer.json["data"] == embeddings(asking(given, encoding_format="base64"))["data"]


async def test_while_observing_all_is_asked_and_what_would_be_is_counted(upstream, tmp_path):
    async with running('mode = "observe"\n' + in_front_of(upstream.url), tmp_path) as node:
        answers = [await embedded(node, given) for given in (["a", "b"], ["a", "b"], ["b", "c"])]
        told = await node.stats()

    assert [call.json["input"] for call in upstream.calls] == [["a", "b"], ["a", "b"], ["b", "c"]]
    assert all(
        answer.json == embeddings(asking(call.json["input"]))
        for answer, call in zip(answers, upstream.calls, strict=True)
    )
    assert told["would_be"]["hit"] == 1


async def test_records_outlive_the_node_and_serve_alone_and_among_others(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await embedded(node, ["a", "b", "c"])
    async with running(in_front_of(upstream.url), tmp_path) as node:
        alone, others = await embedded(node, "c"), await embedded(node, ["c", "a"])

    assert status(alone) == status(others) == "hit"
    assert others.json["data"] == embeddings(asking(["c", "a"]))["data"]
    assert len(upstream.calls) == 1
