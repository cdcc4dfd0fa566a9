"""The edge on this machine in front of a real node: both show each other's hits, and it starts and ends as it should."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal

from tests.asking import chat_body
from tests.e2e.edge import edge_dev
from tests.e2e.program import run, serving
from tests.waiting import answered

NEAR = '[[tiers]]\nstore = "memory"\nlimit = "16 MiB"\n[[tiers]]\nstore = "disk"\nlimit = "64 MiB"\n'
CHAT = "/v1/chat/completions"
ANY_PORTS = ("--port", "0", "--kv-port", "0")


def question(text: str) -> dict:
    return {"model": "smollm2-135m", "messages": [{"role": "user", "content": text}], "max_tokens": 8}


def in_front_of(url: str) -> str:
    return f'[upstreams.fake]\nurl = "{url}"\n'


def port_of(url: str) -> str:
    return url.rpartition(":")[2]


async def kept_in_kv(node, count: int) -> None:
    """Returns once so many records of the node are in KV."""
    await answered(node.stats, such_that=lambda told: told["tiers"][2]["writes"] >= count)


async def kept_answer(there, body: dict):
    """What is kept for a question, once a look-up came in time: those of the edge's tiers have 250 ms."""
    headers = {"cache-control": "only-if-cached"}
    return await answered(lambda: there.post(CHAT, body, headers), such_that=lambda answer: answer[0] != 504)


async def test_node_and_edge_show_each_others_hits_with_the_real_model(tmp_path):
    async with serving(tmp_path, NEAR) as node:
        async with edge_dev(tmp_path, node.url) as edge:
            miss = await edge.post(CHAT, question("Name a colour."))
            hit = await kept_answer(edge, question("Name a colour."))
            ai = await edge.post(CHAT, {**question("Name a river."), "model": "@cf/meta/llama-3.2-1b-instruct"})
            key = miss[1]["cache-status"].rpartition('key="')[2][:64]
            await answered(edge.records, such_that=lambda names: any(key in name for name in names))
            await node.stop()
            shutil.rmtree(tmp_path / "answers")

            async with serving(tmp_path, NEAR + edge.tier, "--port", port_of(node.url)) as emptied:
                at_node = await kept_answer(emptied, question("Name a colour."))
                await edge.empty()
                asked_node = await emptied.post(CHAT, question("Name a fruit."))
                await kept_in_kv(emptied, 1)
                at_edge = await kept_answer(edge, question("Name a fruit."))
                misses = (await emptied.stats())["how"]["miss"]

    assert "Foretold-Edge; fwd=uri-miss; stored" in miss[1]["cache-status"]
    assert hit[1]["cache-status"].startswith("Foretold-Edge; hit; ttl=")
    assert hit[2] == miss[2]
    assert json.loads(miss[2])["choices"][0]["message"]["content"]
    assert ai[0] == 200
    assert json.loads(ai[2])["choices"][0]["message"]["content"]
    # The node that began anew has nothing of its own: that was the edge's record.
    assert at_node[1]["cache-status"].startswith("Foretold; hit; ttl=")
    assert at_node[2] == miss[2]
    # And this was the node's: the edge never asked it.
    assert "fwd=uri-miss" in asked_node[1]["cache-status"]
    assert at_edge[1]["cache-status"].startswith("Foretold-Edge; hit; ttl=")
    assert at_edge[2] == asked_node[2]
    assert misses == 1


async def test_a_purge_at_either_reaches_the_other(tmp_path, upstream):
    async with serving(tmp_path, in_front_of(upstream.url) + NEAR) as node:
        async with edge_dev(tmp_path, node.url) as edge:
            await edge.post(CHAT, chat_body("hello"))
            before = await kept_answer(node, chat_body("hello"))
            at_edge = await run("cache", "purge", "--model", "m", "--yes", "--url", edge.url, home=tmp_path)
            at_node = await answered(
                lambda: node.post(CHAT, chat_body("hello")),
                such_that=lambda answer: "hit" not in answer[1]["cache-status"],
            )

            await edge.post(CHAT, chat_body("another"))
            known = await edge.generations()
            there = await run("cache", "purge", "--model", "m", "--yes", "--url", node.url, home=tmp_path)
            await answered(edge.generations, such_that=lambda now: now != known)
        # What an isolate believes for 30 s another needn't.
        async with edge_dev(tmp_path, node.url) as again:
            after = await again.post(CHAT, chat_body("another"))

    assert (at_edge.code, there.code) == (0, 0), (at_edge.err, there.err)
    assert "hit" in before[1]["cache-status"]
    assert "fwd=uri-miss" in at_node[1]["cache-status"]
    assert "Foretold-Edge; fwd=" in after[1]["cache-status"]


async def test_a_change_of_the_worker_counts_and_one_that_cannot_be_parsed_does_not(tmp_path, upstream):
    worker = tmp_path / "worker.js"

    def answering(text: str) -> str:
        return f"export default {{ fetch: () => new Response({json.dumps(text)}) }};\n"

    worker.write_text(answering("first"))
    (tmp_path / "edge.toml").write_text('[worker]\nentry = "worker.js"\n')
    async with (
        serving(tmp_path, in_front_of(upstream.url)) as node,
        edge_dev(tmp_path, node.url, "--edge", "edge.toml") as edge,
    ):
        first = await edge.get("/")
        worker.write_text("export default {\n  fetch: () => new Response(;\n")
        await edge.says("worker.js:2: SyntaxError")
        still = await edge.get("/")
        worker.write_text("throw new Error('at once');\n" + answering("never"))
        await edge.says("The change does not run")
        worker.write_text(answering("second"))
        await edge.says("the Worker runs anew")
        second = await edge.get("/")

    assert (first, still, second) == (b"first", b"first", b"second")


async def test_ctrl_c_ends_it_all_and_what_its_kv_holds_stays(tmp_path, upstream):
    async with serving(tmp_path, in_front_of(upstream.url)) as node:
        async with edge_dev(tmp_path, node.url) as edge:
            first = await edge.post(CHAT, chat_body("hello"))
            records = await answered(edge.records, such_that=lambda names: len(names) == 1)
            code = await edge.stop(signal.SIGINT)
        async with edge_dev(tmp_path, node.url) as again:
            kept = await again.records()
            hit = await kept_answer(again, chat_body("hello"))

    assert code == 130
    assert not any("Traceback" in line for line in edge.said)
    assert len(records) == 1
    assert kept == records
    assert "Foretold-Edge; hit" in hit[1]["cache-status"]
    assert hit[2] == first[2]


async def test_without_a_node_it_says_how_to_start_one(tmp_path):
    ended = await run("edge", "dev", "--url", "http://127.0.0.1:9", home=tmp_path)

    assert ended.code == 5
    assert "start one with `foretold serve`" in ended.err
    assert "Traceback" not in ended.err


async def test_a_taken_port_is_named_before_anything_starts(tmp_path, upstream):
    async with serving(tmp_path, in_front_of(upstream.url)) as node:
        port = port_of(node.url)
        ended = [
            await run("edge", "dev", "--url", node.url, *ANY_PORTS, option, port, home=tmp_path)
            for option in ("--port", "--kv-port")
        ]

    assert [each.code for each in ended] == [7, 7]
    assert all(f"port {port} on 127.0.0.1 is taken" in each.err for each in ended)


async def test_without_node_js_it_says_what_to_install(tmp_path, upstream):
    async with serving(tmp_path, in_front_of(upstream.url)) as node:
        ended = await run("edge", "dev", "--url", node.url, *ANY_PORTS, home=tmp_path, PATH=str(tmp_path))

    assert ended.code == 1
    assert "install Node.js 20.11 or newer with npm" in ended.err


async def test_a_second_one_names_what_is_taken_and_its_kv_is_open_to_its_token_only(tmp_path, upstream):
    async with (
        serving(tmp_path, in_front_of(upstream.url)) as node,
        edge_dev(tmp_path, node.url) as edge,
    ):
        second = await run("edge", "dev", "--url", node.url, *ANY_PORTS, home=tmp_path)
        mode = (tmp_path / "edge-dev" / "kv-token").stat().st_mode & 0o777
        (tmp_path / "edge-dev" / "kv-token").write_text("a guess")
        refused = await asyncio.gather(edge.asked("GET", "/keys"), edge.asked("POST", "/bulk/delete", ["x"]))

    assert second.code == 1
    assert "another `foretold edge dev` has" in second.err
    assert mode == 0o600
    assert [told["success"] for told in refused] == [False, False]
    assert [told["errors"][0]["code"] for told in refused] == [10000, 10000]
