"""What a model will take, from its header alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from foretold.errors import ConfigError, ModelError
from foretold.models.library.budget import check_fits, predicted, token_bytes
from foretold.models.library.gguf import BadGguf, read_header
from foretold.models.manifest import SMOLLM2
from foretold.models.memory import memory_bytes
from tests.library.gguf_file import LLAMA, gguf

# For each token of context, which tokens of a batch look at it.
MASK = 64 * 5


def header(**other):
    content = gguf(LLAMA | {name.replace("__", "."): value for name, value in other.items()})
    return read_header(content, len(content))


def test_a_token_takes_keys_and_values_of_all_layers():
    # 2 layers × 2 key-value heads × 16 wide × (keys and values) × 2 bytes
    assert token_bytes(header(), k="f16", v="f16") == 2 * 2 * 16 * 2 * 2 + MASK


def test_a_smaller_type_takes_less():
    assert token_bytes(header(), k="q8_0", v="q8_0") == round(2 * 2 * 16 * 2 * 34 / 32) + MASK


def test_heads_given_layer_by_layer_are_added_up():
    assert token_bytes(header(llama__attention__head_count_kv=[1, 3]), k="f16", v="f16") == (1 + 3) * 16 * 2 * 2 + MASK


def test_lengths_of_keys_and_values_count_where_they_are_given():
    given = header(llama__attention__key_length=32, llama__attention__value_length=8)

    assert token_bytes(given, k="f16", v="f16") == 2 * 2 * (32 + 8) * 2 + MASK


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("llama__block_count", 0),
        ("llama__embedding_length", "64"),
        ("llama__attention__head_count_kv", "2"),
        ("llama__attention__key_length", [1, 2]),
    ],
)
def test_a_header_that_contradicts_itself_is_refused(name, value):
    with pytest.raises(BadGguf):
        token_bytes(header(**{name: value}), k="f16", v="f16")


SMOLLM2_HEAD = {
    "llama__block_count": 30,
    "llama__embedding_length": 576,
    "llama__attention__head_count": 9,
    "llama__attention__head_count_kv": 3,
    "tokenizer__ggml__tokens": ["x"] * 49152,
}


@pytest.mark.parametrize(
    ("parallel", "context", "kv", "measured_mb"),
    [
        (1, 512, "f16", 56.7),
        (1, 2048, "f16", 92.6),
        (2, 2048, "f16", 140.8),
        (8, 512, "f16", 146.3),
        (1, 2048, "q8_0", 70.6),
    ],
)
def test_what_was_measured_of_the_bundled_model_was_predicted(parallel, context, kv, measured_mb):
    takes = predicted(header(**SMOLLM2_HEAD), k=kv, v=kv, parallel=parallel)

    assert 0.9 < (takes.fixed_bytes + takes.token_bytes * context * parallel) / 1e6 / measured_mb < 1.1


def test_what_is_said_of_the_bundled_model_is_what_its_header_says():
    takes = predicted(header(**SMOLLM2_HEAD), k="f16", v="f16", parallel=SMOLLM2.parallel)

    ours = SMOLLM2.memory_bytes
    assert 0.95 < (takes.fixed_bytes + takes.token_bytes * SMOLLM2.context * SMOLLM2.parallel) / ours < 1.05


MINILM_HEAD = {
    "general.architecture": "bert",
    "bert.pooling_type": 1,
    "bert.block_count": 6,
    "bert.embedding_length": 384,
    "bert.attention.head_count": 12,
    "tokenizer.ggml.tokens": ["x"] * 30522,
}


@pytest.mark.parametrize(("parallel", "context", "measured_mb"), [(1, 256, 59.4), (4, 512, 95.0)])
def test_what_was_measured_of_an_embedding_model_was_predicted(parallel, context, measured_mb):
    content = gguf(MINILM_HEAD)
    takes = predicted(read_header(content, len(content)), k="f16", v="f16", parallel=parallel)
    manifest = replace(
        SMOLLM2,
        capabilities=frozenset({"embedding"}),
        fixed_bytes=takes.fixed_bytes,
        token_bytes=takes.token_bytes,
        context=context,
        parallel=parallel,
    )

    assert 0.9 < manifest.memory_bytes / 1e6 / measured_mb < 1.1
    assert manifest.with_settings(name="m", context=context, max_tokens=1, parallel=9, kv="q8_0").memory_bytes == (
        manifest.memory_bytes
    )


def test_one_that_keeps_its_tokens_takes_memory_for_those_of_each_slot():
    last = header(llama__pooling_type=3)
    one, four = (predicted(last, k="f16", v="f16", parallel=parallel) for parallel in (1, 4))

    assert four.token_bytes - one.token_bytes == 3 * token_bytes(last, k="f16", v="f16")


def test_a_type_in_blocks_is_refused_where_keys_are_no_whole_blocks():
    with pytest.raises(ConfigError, match="blocks of 32, and this model's are 16 long"):
        predicted(header(), k="q8_0", v="q8_0", parallel=1)


def test_a_model_that_fits_is_accepted_and_one_that_does_not_is_refused_with_both_numbers():
    needed = SMOLLM2.memory_bytes + SMOLLM2.size_bytes

    check_fits(SMOLLM2, there_bytes=needed)
    with pytest.raises(ModelError, match=r"needs 239 MB of memory .*this machine has 238 MB: set a smaller `context`"):
        check_fits(SMOLLM2, there_bytes=needed - 10**6)
    with pytest.raises(ModelError):
        check_fits(replace(SMOLLM2, context=10**7), there_bytes=needed)


def test_memory_is_what_the_machine_has_or_what_its_cgroup_allows(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal:       8000000 kB\nMemFree: 1 kB\n")
    (tmp_path / "proc/self/cgroup").write_text("0::/a\n")
    machine = memory_bytes(tmp_path)
    (tmp_path / "sys/fs/cgroup/a").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/a/memory.max").write_text("1000000\n")

    assert (machine, memory_bytes(tmp_path)) == (8_000_000 * 1024, 1_000_000)
    assert memory_bytes(tmp_path / "nowhere") is None
