"""`foretold models promote`, on the real engine and a node of two processes that is asked all the while."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import aiohttp

from foretold.datafolder import models_folder
from foretold.models import bundled
from foretold.models.manifest import SMOLLM2
from tests.asking import chat_body
from tests.e2e.program import Node, run, serving
from tests.library.worlds import Told


async def shown(node: Node) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"{node.url}/v1/models/small") as response:
        return str((await response.json())["revision"])


def engines(node: Node) -> int:
    children = Path(f"/proc/{node.process.pid}/task/{node.process.pid}/children").read_text().split()
    return sum(b"foretold.models.engine" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children)


async def test_a_model_is_promoted_while_it_is_asked_and_a_restart_runs_what_was_promoted(tmp_path, monkeypatch):
    weights = tmp_path / "smollm2.gguf"
    weights.symlink_to(bundled.ensure(SMOLLM2, models_folder(), tell=Told()))
    monkeypatch.setenv("FORETOLD_CACHE", str(tmp_path / "cache"))
    library = f"file://{tmp_path}/library"
    key = json.loads((await run("models", "key", str(tmp_path / "team.key"), "--json", home=tmp_path)).out)
    limits = (
        "--context",
        "512",
        "--parallel",
        "2",
        "--name",
        "smollm2",
        "--sign",
        str(tmp_path / "team.key"),
        "--json",
    )

    async def pushed(max_tokens: int) -> str:
        told = await run(
            "models", "push", str(weights), library, "--max-tokens", str(max_tokens), *limits, home=tmp_path
        )
        assert told.code == 0, told.err
        return str(told.json["revision"])

    first = await pushed(16)
    settings = (
        f'[models.small]\nsource = "{library}"\nmodel = "smollm2"\n[library]\ntrusted = ["{key["public_key"]}"]\n'
    )
    is_over = False
    statuses: list[int] = []

    async def ask_on(node: Node, number: int) -> None:
        while not is_over:
            body = chat_body("Name a colour.", max_tokens=3, seed=number + 10 * len(statuses)) | {"model": "small"}
            statuses.append((await node.post("/v1/chat/completions", body))[0])

    async with serving(tmp_path, settings, "--workers", "2") as node:
        told = {"FORETOLD_URL": node.url}
        before = await shown(node)
        asking = [asyncio.create_task(ask_on(node, number)) for number in range(3)]
        second = await pushed(17)
        promoted = await run("models", "promote", "small", home=tmp_path, **told)
        back = await run("models", "promote", "small", "--revision", first, "--json", home=tmp_path, **told)
        again = await run("models", "promote", "small", "--revision", second, "--json", home=tmp_path, **told)
        unknown = await run("models", "promote", "other", home=tmp_path, **told)
        nothing = await run("models", "promote", "small", "--revision", "0" * 64, home=tmp_path, **told)
        is_over = True
        await asyncio.gather(*asking)
        after = await shown(node)
        left = engines(node)

    async with serving(tmp_path, settings) as node:
        restarted = await shown(node)

    assert promoted.code == 0, promoted.err
    assert promoted.out.startswith(f"small\t{after[:12]}\tloaded\t")
    assert "loading small, revision" in promoted.err
    assert (back.json["revision"], back.json["promoted"]) == (before, True)
    assert again.json["revision"] == after != before
    assert unknown.code == 6
    assert nothing.code != 0
    assert "has no revision" in nothing.err
    assert len(statuses) > 3
    assert set(statuses) == {200}
    assert left == 1
    assert restarted == after
    assert os.path.exists(tmp_path / "promoted.json")
