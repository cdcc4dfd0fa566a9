"""An upstream that is down, and the bundled model that answers meanwhile, as users run them."""

from __future__ import annotations

import asyncio
import json

from tests.e2e.program import serving
from tests.fakes.upstream import FakeUpstream

SETTINGS = """
[upstreams.far]
url = "{url}"
retries = 0
[models.smollm2-135m]
[[routes]]
name = "all"
models = ["*"]
upstream = "far"
fallback = ["smollm2-135m"]
"""
QUESTION = {"messages": [{"role": "user", "content": "Chào bạn"}], "max_tokens": 6, "temperature": 0}
CHAT = ("/v1/chat/completions", {"model": "gpt", **QUESTION})
RUN = ("/ai/run/gpt", QUESTION)


async def test_the_local_model_answers_labelled_while_the_upstream_is_down_and_nothing_of_it_is_kept(tmp_path):
    async with FakeUpstream() as upstream:
        await upstream.refuse()
        async with serving(tmp_path, SETTINGS.format(url=upstream.url)) as node:
            down = [
                await node.post(*CHAT),
                await node.post(*RUN),
                await node.post(CHAT[0], {**CHAT[1], "stream": True}),
            ]
            await upstream.accept()
            async with asyncio.timeout(20):
                # Who asks again within a second gets the same; then the upstream is tried.
                back = await node.post(*CHAT)
                while "foretold-fallback" in back[1]:
                    back = await node.post(*CHAT)
            hit = await node.post(*RUN)

    for status, headers, _ in down:
        assert status == 200
        assert headers["cache-status"].endswith("detail=fallback")
        assert "stored" not in headers["cache-status"]
        assert headers["foretold-fallback"] == "smollm2-135m"
    assert json.loads(down[0][2])["model"] == "smollm2-135m"
    assert json.loads(down[1][2])["result"]["response"] == json.loads(down[0][2])["choices"][0]["message"]["content"]
    assert down[2][2].endswith(b"data: [DONE]\n\n")
    assert "; stored" in back[1]["cache-status"]
    assert "You said 'Chào bạn'" in json.loads(back[2])["choices"][0]["message"]["content"]
    assert "; hit" in hit[1]["cache-status"]
    assert "You said" in json.loads(hit[2])["result"]["response"]
