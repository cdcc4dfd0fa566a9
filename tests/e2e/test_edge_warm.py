"""Chosen records of a node pushed to the edge's KV: what went is a hit there."""

from __future__ import annotations

import pytest

from tests.asking import chat_body
from tests.e2e.edge import edge_dev
from tests.e2e.program import run, serving
from tests.waiting import answered

NEAR = '[[tiers]]\nstore = "memory"\nlimit = "16 MiB"\n[[tiers]]\nstore = "disk"\nlimit = "64 MiB"\n'
CHAT = "/v1/chat/completions"
NOWHERE = (
    f'[upstreams.fake]\nurl = "http://127.0.0.1:9"\n{NEAR}[[tiers]]\nstore = "cloudflare_kv"\n'
    'url = "http://127.0.0.1:9"\naccount_id = "a"\nnamespace_id = "b"\ntoken = { env = "KV_TOKEN" }\n'
)


async def test_what_was_pushed_is_a_hit_at_the_edge_and_what_was_not_chosen_is_not_there(tmp_path, upstream):
    in_front = f'[upstreams.fake]\nurl = "{upstream.url}"\n{NEAR}'
    async with serving(tmp_path, in_front) as node, edge_dev(tmp_path, node.url, "--config", "given.toml") as edge:
        settings = tmp_path / "with-kv.toml"
        settings.write_text(in_front + edge.tier)

        async def warm(*words: str):
            return await run("edge", "warm", "--config", str(settings), "--json", *words, home=tmp_path)

        told = {}
        for text, model in (("one", "m"), ("two", "m"), ("three", "other")):
            told[text] = await node.post(CHAT, chat_body(text, model=model), {"foretold-tags": f"{text}, all"})
        await node.written(3)

        dry = await warm("--dry-run", "--tag", "all")
        before = await edge.records()
        pushed = await warm("--model", "m", "--limit", "2")
        by_tag = await warm("--tag", "three", "--tag", "all", "--dry-run")
        nothing = await warm("--tenant", "tenant:web")
        there = await edge.records()
        hit = await answered(
            lambda: edge.post(CHAT, chat_body("one", model="m"), {"cache-control": "only-if-cached"}),
            such_that=lambda answer: answer[0] != 504,
        )

    assert (dry.code, dry.json["chosen"], dry.json["dry_run"], before) == (0, 3, True, [])
    assert (pushed.code, pushed.json["pushed"], pushed.json["refused"]) == (0, 2, 0), pushed.err
    assert by_tag.json["chosen"] == 1
    assert nothing.json["pushed"] == 0
    assert len(there) == 2
    assert hit[2] == told["one"][2]
    assert hit[1]["cache-status"].startswith("Foretold-Edge; hit; ttl=")


@pytest.mark.parametrize(
    ("words", "settings", "code", "said"),
    [
        ([], '[upstreams.fake]\nurl = "http://127.0.0.1:9"\n', 3, 'no tier of the settings is "cloudflare_kv"'),
        ([], NOWHERE, 1, "holds no answers"),
        (["--tag", "Ä"], NOWHERE, 2, "give 1 to 64 of a-z 0-9"),
        (["--of", "local:"], NOWHERE, 2, "it goes with --tag"),
        (["--tenant", "web"], NOWHERE, 2, "write tenant:NAME"),
        (["--namespace", "abc"], NOWHERE, 2, "give its 64 hex digits"),
        (["--route", "chat"], NOWHERE, 2, "there is no route 'chat': known are fake"),
        (["--limit", "0"], NOWHERE, 2, "0 is not in the range"),
    ],
)
async def test_what_cannot_be_is_told(tmp_path, words, settings, code, said):
    (tmp_path / "given.toml").write_text(settings)

    ended = await run("edge", "warm", "--config", "given.toml", *words, home=tmp_path, KV_TOKEN="t")

    assert ended.code == code, ended.err
    assert said in ended.err
    assert "Traceback" not in ended.err


async def test_a_kv_that_cannot_be_reached_is_told_and_nothing_is_pushed(tmp_path, upstream):
    async with serving(tmp_path, f'[upstreams.fake]\nurl = "{upstream.url}"\n{NEAR}') as node:
        await node.post(CHAT, chat_body("one"))
        await node.written(1)
        (tmp_path / "nowhere.toml").write_text(NOWHERE)

        ended = await run("edge", "warm", "--config", "nowhere.toml", home=tmp_path, KV_TOKEN="t")

    assert ended.code == 1
    assert "nothing is pushed: KV can't be reached" in ended.err
