"""Models on the real engine, of which one has room at a time, in a node of two processes."""

from __future__ import annotations

from pathlib import Path

import aiohttp

from tests.asking import chat_body
from tests.e2e.program import Node, run, serving

CHAT = "/v1/chat/completions"
# One takes 239 MB, and both 380, because they share their weights.
ROOM_FOR_ONE = '[pool]\nmemory = "250 MB"\n[models.one]\n[models.two]\n'


def engines_of(node: Node) -> list[str]:
    children = Path(f"/proc/{node.process.pid}/task/{node.process.pid}/children").read_text().split()
    return [pid for pid in children if b"foretold.models.engine" in Path(f"/proc/{pid}/cmdline").read_bytes()]


async def ask(node: Node, model: str, seed: int) -> int:
    body = chat_body("Name a colour.", max_tokens=4, temperature=0, seed=seed) | {"model": model}
    status, _, _ = await node.post(CHAT, body)
    return status


async def test_two_processes_share_one_pool_that_a_command_looks_at_fills_and_empties(tmp_path):
    async with serving(tmp_path, ROOM_FOR_ONE, "--workers", "2") as node:
        told = {"FORETOLD_URL": node.url}
        statuses = [await ask(node, ("one", "two")[seed % 2], seed) for seed in range(4)]
        engines = engines_of(node)
        listed = await run("models", "ps", home=tmp_path, **told)
        loaded = await run("models", "load", "one", "--keep-alive", "3600", "--json", home=tmp_path, **told)
        unloaded = await run("models", "unload", "one", home=tmp_path, **told)
        unknown = await run("models", "unload", "three", home=tmp_path, **told)
        left = engines_of(node)
        async with aiohttp.ClientSession() as session, session.get(f"{node.url}/v1/models") as response:
            models = (await response.json())["data"]
        counted = [(await node.stats())["models"] for _ in range(6)]  # of either process

    assert statuses == [200] * 4
    assert len(engines) == 1
    assert [row["name"] for row in counted[0]] == ["one", "two"]
    assert [row["loads"] for row in counted[0]] == [3, 2]
    assert counted == [counted[0]] * 6
    states = {line.split("\t")[0]: line.split("\t")[2] for line in listed.out.splitlines()[:2]}
    assert states == {"one": "unloaded", "two": "loaded"}
    assert listed.out.splitlines()[2].startswith("together\t239 MB of 250 MB")
    assert loaded.json["state"] == "loaded"
    assert 3500 < loaded.json["expires_in_s"] <= 3600
    assert "unloaded" in unloaded.out
    assert unknown.code == 6
    assert "known are one, two" in unknown.err
    assert left == []
    assert {model["id"]: model["state"] for model in models} == {"one": "unloaded", "two": "unloaded"}


async def test_a_node_whose_model_has_no_room_says_both_numbers_before_it_starts(tmp_path):
    (tmp_path / "foretold.toml").write_text('[pool]\nmemory = "200 MB"\n[models.one]\n')
    checked = await run("config", "check", home=tmp_path)
    started = await run("serve", "--port", "0", home=tmp_path)
    several = await run("serve", "--port", "0", "--workers", "2", home=tmp_path)

    for ended in (checked, started, several):
        assert ended.code != 0
        assert "model 'one' needs 239 MB of memory" in ended.err
        assert "leaves it 200 MB" in ended.err
        assert "Traceback" not in ended.err
    assert checked.code == 3


async def test_the_settings_in_force_tell_how_much_models_may_take(tmp_path):
    shown = (await run("config", "show", "--json", home=tmp_path)).json

    assert shown["pool"]["memory"].endswith("iB")
