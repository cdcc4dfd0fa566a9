"""Asked once, remembered: the main job, over real sockets."""

from __future__ import annotations

from tests.running import in_front_of, running


async def test_the_second_answer_is_the_first_ones_bytes_from_the_cache(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        first = await node.chat("hello")
        second = await node.chat("hello")

    assert first.cache_status.startswith("Foretold; fwd=uri-miss; stored")
    assert second.cache_status.startswith("Foretold; hit; ttl=86")
    assert second.body == first.body
    assert int(second.headers["age"]) == 0
    assert len(upstream.calls) == 1


async def test_a_streamed_and_a_whole_answer_are_one_record(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        whole = await node.chat("hello")
        streamed = await node.chat("hello", stream=True)
        other_way = await node.chat("hi", stream=True)
        then_whole = await node.chat("hi")

    assert streamed.is_hit
    assert then_whole.is_hit
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert streamed.text == whole.text
    assert then_whole.text == other_way.text
    assert then_whole.json["usage"]["total_tokens"] == 12
    assert b'"usage"' not in other_way.body
    assert streamed.body.endswith(b"data: [DONE]\n\n")
    assert len(upstream.calls) == 2


async def test_a_restarted_node_still_hits(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        first = await node.chat("hello")
    async with running(in_front_of(upstream.url), tmp_path) as node:
        second = await node.chat("hello")

    assert second.is_hit
    assert second.body == first.body
