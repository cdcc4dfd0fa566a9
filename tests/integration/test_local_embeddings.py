"""Embeddings of a model of this node, on its real engine: misses, hits and mixtures in either form."""

from __future__ import annotations

import openai
import pytest

from foretold.models.configured import Weights
from tests.fakes import tiny_models
from tests.running import running

SETTINGS = f'''
[models.tiny]
source = "file:///library"
revision = "{"0" * 64}"
'''


async def test_a_models_own_vectors_are_kept_and_put_together_in_either_form(tmp_path):
    file = tiny_models.bert(tmp_path / "tiny.gguf")
    weights = {"tiny": Weights(tiny_models.described_as(file, name="tiny"), file)}
    async with running(SETTINGS, tmp_path / "data", weights=weights) as node:
        client = openai.AsyncOpenAI(base_url=f"{node.url}/v1", api_key="sk-test", max_retries=0)
        async with client:
            alone = await client.embeddings.create(model="tiny", input="b")
            mixed = await client.embeddings.create(model="tiny", input=["a", "b", "c"])
            kept = await client.embeddings.create(model="tiny", input=["c", "b"], encoding_format="float")
        told = await node.stats()

    assert [item.index for item in mixed.data] == [0, 1, 2]
    assert mixed.data[1].embedding == pytest.approx(alone.data[0].embedding)
    assert kept.data[0].embedding == pytest.approx(mixed.data[2].embedding)
    assert len(kept.data[1].embedding) == tiny_models.WIDTH
    assert (told["how"]["miss"], told["how"]["hit"], told["stored"]) == (2, 1, 3)
