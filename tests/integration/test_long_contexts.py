"""A context as long as the model's own, 128K tokens, on the real engine, kept in each type that a model may have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from foretold.errors import ConfigError
from foretold.models.host import Host
from foretold.origins.local import LocalOrigin
from foretold.ports import Asked, Forwarded
from tests.fakes import tiny_models

CONTEXT = 131_072


@pytest.fixture
def file(tmp_path) -> Path:
    # Keys and values 32 long: whole blocks of every type.
    return tiny_models.llama(tmp_path / "tiny.gguf", context=CONTEXT, heads=2, kv_heads=1)


async def ask(origin, prompt: str) -> tuple[int, bytes]:
    body = json.dumps({"prompt": prompt, "max_tokens": 2, "temperature": 0}).encode()
    asked = Asked(operation="completion", model="tiny", method="POST", path="/x", body=body)
    incoming = await origin.fetch(asked, Forwarded())
    return incoming.status, b"".join([chunk async for chunk in incoming.chunks()])


@pytest.mark.parametrize("kv", ["f16", "q8_0", "q4_0", "f32"])
async def test_a_prompt_of_many_thousand_tokens_is_answered_and_one_too_long_is_refused(file, tmp_path, kv):
    manifest = tiny_models.described_as(file, context=CONTEXT, parallel=1, kv=kv)
    host = Host(manifest, file, tmp_path / "run")
    origin = LocalOrigin(host, manifest)
    try:
        status, told = await ask(origin, "a" * 3000)
        refused, why = await ask(origin, "a" * CONTEXT)
        used_bytes = private_bytes((await host.start()).pid)
    finally:
        await host.stop()

    assert (status, refused) == (200, 400)
    assert b'"prompt_tokens":3001' in told
    assert "131,073 tokens" in json.loads(why)["error"]["message"]
    assert "131,072" in json.loads(why)["error"]["message"]
    # What is kept of tokens is taken as the model is loaded; some of what is computed with only when the context is full.
    assert used_bytes < manifest.memory_bytes * 1.1


def test_more_than_the_model_was_made_for_is_refused_with_both_numbers(file):
    with pytest.raises(ConfigError, match="131073, and the model was made for 131072"):
        tiny_models.described_as(file, context=CONTEXT + 1)


def test_a_type_in_blocks_that_its_keys_do_not_fill_is_refused_before_anything_is_loaded(tmp_path):
    narrow = tiny_models.llama(tmp_path / "narrow.gguf")

    with pytest.raises(ConfigError, match="keep it as f16"):
        tiny_models.described_as(narrow, kv="q8_0")


def private_bytes(pid: int) -> int:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(status["RssAnon"].split()[0]) * 1024
