"""The official JavaScript client against a node of its own process: miss and hit, whole and streamed, in all orders."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import serving
from tests.fakes.agent import TOOLS, agent, without_ids

CLIENT = Path(__file__).parent / "javascript" / "ask.js"


async def asked(url: str, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    client = await asyncio.create_subprocess_exec(
        "node", str(CLIENT), f"{url}/v1", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(client.communicate("\n".join(map(json.dumps, questions)).encode()), 60)
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.parametrize("order", [(False, True), (True, False), (False, False), (True, True)], ids=str)
@pytest.mark.parametrize("turns", [0, 3], ids=["tools", "text"])
async def test_miss_and_hit_whole_and_streamed_are_equal_objects(upstream, tmp_path, order, turns):
    upstream.on("m", agent)
    messages = [{"role": "user", "content": "Weather?"}, *[{"role": "assistant", "content": "…"}] * turns]
    question = {"model": "m", "messages": messages, "tools": TOOLS}
    async with serving(tmp_path, f'[upstreams.fake]\nurl = "{upstream.url}"\n') as node:
        answers = await asked(node.url, [{**question, "streamed": streamed} for streamed in (*order, order[0])])

    assert len(answers) == 3
    assert without_ids(answers[0]) == without_ids(answers[1]) == without_ids(answers[2])
    assert len(upstream.calls) == 1
