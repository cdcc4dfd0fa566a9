"""What a model will take, from its header alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from foretold.errors import ModelError
from foretold.models.library.budget import check_fits, fixed_bytes, token_bytes
from foretold.models.library.gguf import BadGguf, read_header
from foretold.models.manifest import SMOLLM2
from foretold.models.memory import memory_bytes
from tests.library.gguf_file import LLAMA, gguf


def header(**other):
    content = gguf(LLAMA | {name.replace("__", "."): value for name, value in other.items()})
    return read_header(content, len(content))


def test_a_token_takes_keys_and_values_of_all_layers():
    # 2 layers × 2 key-value heads × 16 wide × (keys and values) × 2 bytes
    assert token_bytes(header(), k="f16", v="f16") == 2 * 2 * 16 * 2 * 2


def test_a_smaller_type_takes_less():
    assert token_bytes(header(), k="q8_0", v="q8_0") == round(2 * 2 * 16 * 2 * 34 / 32)


def test_heads_given_layer_by_layer_are_added_up():
    assert token_bytes(header(llama__attention__head_count_kv=[1, 3]), k="f16", v="f16") == (1 + 3) * 16 * 2 * 2


def test_lengths_of_keys_and_values_count_where_they_are_given():
    given = header(llama__attention__key_length=32, llama__attention__value_length=8)

    assert token_bytes(given, k="f16", v="f16") == 2 * 2 * (32 + 8) * 2


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


def test_what_was_measured_of_the_bundled_model_was_predicted():
    heads = {
        "llama__block_count": 30,
        "llama__embedding_length": 576,
        "llama__attention__head_count": 9,
        "llama__attention__head_count_kv": 3,
        "tokenizer__ggml__tokens": ["x"] * 49152,
    }

    predicted = fixed_bytes(header(**heads)) + token_bytes(header(**heads), k="f16", v="f16") * 2048

    # Measured: 36 MB and 22 kB a token, 81 MB at 2,048 tokens.
    assert 0.85 < predicted / 81e6 < 1.15


def test_a_model_that_fits_is_accepted_and_one_that_does_not_is_refused_with_both_numbers():
    needed = SMOLLM2.memory_bytes + SMOLLM2.size_bytes

    check_fits(SMOLLM2, there_bytes=needed)
    with pytest.raises(ModelError, match=r"needs 224 MB of memory .*this machine has 223 MB: set a smaller `context`"):
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
