from __future__ import annotations

from dataclasses import replace

import pytest

from foretold.models.launch import Launch, launch_of
from foretold.models.manifest import SMOLLM2, File, revision

LAUNCH = Launch(
    alias="m",
    weights="/weights",
    socket="/run/m.sock",
    api_key="a secret",
    parent_pid=1,
    memory_bytes=2,
    context=3,
    parallel=4,
    cache_type_k="f16",
    cache_type_v="q8_0",
)


@pytest.mark.parametrize(
    "change",
    [
        {"files": (File("other.gguf", "0" * 64, 1),)},
        {"chat_template": "{{ messages }}"},
        {"engine": "onnx"},
        {"context": 4096},
        {"cache_type_k": "q8_0"},
        {"cache_type_v": "q8_0"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_changes_answers_changes_the_revision(change):
    assert revision(replace(SMOLLM2, **change)) != revision(SMOLLM2)


@pytest.mark.parametrize(
    "change",
    [{"name": "other"}, {"parallel": 8}, {"licence": "MIT"}, {"languages": ("vi",)}, {"fixed_bytes": 1}],
    ids=lambda change: next(iter(change)),
)
def test_what_changes_no_answer_leaves_the_revision(change):
    assert revision(replace(SMOLLM2, **change)) == revision(SMOLLM2)


def test_the_revision_of_the_bundled_model_stays_what_it_was():
    assert revision(SMOLLM2) == "4ad9059dca7960f52b9bc02f06d9a2638f2bd6084493056d07fc685f0642214a"


def test_the_revision_tells_the_two_cache_types_apart():
    k, v = replace(SMOLLM2, cache_type_k="q8_0"), replace(SMOLLM2, cache_type_v="q8_0")

    assert revision(k) != revision(v)


def test_memory_grows_with_context_and_slots():
    assert replace(SMOLLM2, context=8192, parallel=1).memory_bytes == 45_000_000 + 23_400 * 8192
    assert replace(SMOLLM2, context=2048, parallel=4).memory_bytes == 45_000_000 + 23_400 * 8192


def test_settings_give_another_name_and_other_limits_to_the_same_files():
    mine = SMOLLM2.with_settings(name="mine", context=512, max_tokens=64, parallel=3)

    assert (mine.name, mine.context, mine.max_tokens, mine.parallel) == ("mine", 512, 64, 3)
    assert mine.files == SMOLLM2.files


def test_a_launch_line_reads_back_as_it_was():
    assert launch_of(LAUNCH.line()) == LAUNCH


def test_a_launch_does_not_show_its_api_key():
    assert "a secret" not in repr(LAUNCH)
