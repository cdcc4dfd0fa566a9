"""The beginning of a GGUF file, from anybody: read in milliseconds, or refused for a reason."""

from __future__ import annotations

import random
import struct
import time

import pytest

from foretold.models.library.gguf import BadGguf, Elided, NeedsMore, read_header
from tests.library.gguf_file import LIST, LLAMA, TEXT, U32, gguf, tensor

WHOLE = gguf()


def read(content: bytes):
    return read_header(content, len(content))


def head(*, tensors: int = 0, entries: int = 0, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, entries)


def named(name: str) -> bytes:
    return struct.pack("<Q", len(name)) + name.encode()


def test_entries_come_as_numbers_texts_and_tuples():
    header = read(gguf(LLAMA | {"a.bool": True, "a.float": 0.5}))

    assert header.architecture == "llama"
    assert header.own("context_length") == 4096
    assert header.values["general.languages"] == ("en", "vi")
    assert (header.values["a.bool"], header.values["a.float"]) == (True, 0.5)
    assert (header.part, header.parts, header.tensors, header.version) == (0, 1, 1, 3)
    assert header.length + header.data_bytes == len(WHOLE) + (header.length - read(WHOLE).length)


def test_long_lists_and_texts_are_passed_over():
    header = read(gguf({"long.list": list(range(5000)), "long.texts": ["x"] * 5000, "long.text": "x" * (2**20 + 1)}))

    assert header.values == {"long.list": Elided(5000), "long.texts": Elided(5000), "long.text": Elided(2**20 + 1)}


def test_of_each_cut_beginning_it_says_that_it_needs_more_and_of_a_cut_file_that_it_was_cut():
    length = read(WHOLE).length

    for at in range(length - 32):
        with pytest.raises(NeedsMore) as more:
            read_header(WHOLE[:at], len(WHOLE))
        assert at < more.value.least_bytes <= length
        with pytest.raises(BadGguf):
            read(WHOLE[:at])
    with pytest.raises(BadGguf, match="it was cut off"):
        read(WHOLE[:-1])


def test_what_it_needs_is_enough_in_a_few_steps():
    content = gguf(LLAMA | {"tokenizer.ggml.tokens": ["token"] * 50_000})
    given, steps = 1000, 0

    while True:
        try:
            read_header(content[:given], len(content))
            break
        except NeedsMore as more:
            given, steps = max(2 * given, more.least_bytes), steps + 1

    assert steps < 12


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "ends within its header"),
        (b"GGML" + bytes(100), "begins with b'GGML' instead of b'GGUF'"),
        (b"PK\x03\x04" + bytes(100), "instead of b'GGUF'"),
        (head(version=1) + bytes(100), "version is 1, known are 2 and 3"),
        (b"GGUF" + struct.pack(">I", 3) + bytes(100), "this one is big-endian"),
        (head(tensors=2**63) + bytes(100), "cannot hold"),
        (head(tensors=100_001) + bytes(3 * 10**6), "cannot hold"),
        (head(entries=2**40) + bytes(100), "cannot hold"),
        (head(entries=1) + struct.pack("<Q", 2**40) + bytes(100), "are the most"),
        (head(entries=1) + struct.pack("<Q", 4) + b"\xff\xfe\xfd\xfc" + bytes(100), "is not UTF-8"),
        (head(entries=1) + named("a") + struct.pack("<I", 99) + bytes(100), "unknown type 99"),
        (head(entries=1) + named("a") + struct.pack("<IIQ", LIST, LIST, 1) + bytes(100), "is a list of type 9"),
        (head(entries=1) + named("a") + struct.pack("<IIQ", LIST, U32, 2**61) + bytes(100), "cannot hold"),
        (head(entries=1) + named("a") + struct.pack("<IIQ", LIST, TEXT, 2**61) + bytes(100), "cannot hold"),
        (head(entries=1) + named("a") + struct.pack("<IQ", TEXT, 2**62) + bytes(100), "ends within its header"),
        (head(entries=2) + 2 * (named("a") + struct.pack("<II", U32, 1)) + bytes(100), "stands there twice"),
        (gguf({"general.alignment": 24}), "wanted is a power of two"),
        (gguf({"general.alignment": 0}), "wanted is a power of two"),
        (gguf({"general.architecture": 7}), "is no text"),
        (gguf({"split.no": "1"}), "is no whole number"),
        (gguf({"split.no": 3, "split.count": 3}), "part 3 of 3"),
        (head(tensors=1) + tensor("t", 10**15, offset=0) + bytes(100), "its tensors end at byte"),
        (head(tensors=1) + tensor("t", 1, offset=7) + bytes(100), "no multiple of 32"),
        (head(tensors=1) + named("t") + struct.pack("<I", 9) + bytes(200), "has 9 dimensions"),
    ],
)
def test_what_no_file_can_begin_with_is_refused_and_says_why(content, why):
    with pytest.raises(BadGguf, match=why):
        read(content)


def test_any_changed_bytes_give_a_header_or_a_refusal_and_nothing_else():
    chance = random.Random(1)

    for _ in range(3000):
        changed = bytearray(WHOLE)
        for _ in range(chance.randint(1, 4)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        try:
            read(bytes(changed))
        except (BadGguf, NeedsMore):
            continue


def test_a_header_longer_than_any_model_s_is_not_asked_for():
    start = head(entries=1) + named("a") + struct.pack("<IQ", TEXT, 2**30)

    with pytest.raises(BadGguf, match="longer than 64 MiB"):
        read_header(start, 2**40)


def test_a_vocabulary_of_the_largest_models_is_passed_over_quickly():
    content = gguf(LLAMA | {"tokenizer.ggml.tokens": ["token"] * 250_000, "scores": [0.5] * 5000})
    began_s = time.process_time()

    header = read(content)

    assert header.values["tokenizer.ggml.tokens"] == Elided(250_000)
    # A tenth of it where nothing else runs; the usual reader takes seconds.
    assert time.process_time() - began_s < 2
