"""GGUF files made by hand: headers of any kind, and weights that are noise."""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

F32, U32, I32, TEXT, LIST = 6, 4, 5, 8, 9
LLAMA: dict[str, Any] = {
    "general.architecture": "llama",
    "general.license": "apache-2.0",
    "general.languages": ["en", "vi"],
    "llama.context_length": 4096,
    "llama.block_count": 2,
    "llama.embedding_length": 64,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "tokenizer.chat_template": "{{ messages }}",
    "tokenizer.ggml.tokens": ["a", "b", "c"],
}
ALIGNMENT = 32


class Tensor(NamedTuple):
    """32-bit numbers; `shape` as GGUF counts it: what lies side by side comes first."""

    name: str
    shape: tuple[int, ...]
    content: bytes


def gguf(values: Mapping[str, Any] = LLAMA, tensors: Sequence[bytes] = (b"\0" * 128,), *, version: int = 3) -> bytes:
    """A file with these entries and these tensors, each of one dimension and of 32-bit numbers."""
    named = [Tensor(f"t{at}", (len(content) // 4,), content) for at, content in enumerate(tensors)]
    return gguf_of(values, named, version=version)


def gguf_of(values: Mapping[str, Any], tensors: Sequence[Tensor], *, version: int = 3) -> bytes:
    head = [b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(values))]
    head += [_text(name) + _value(value) for name, value in values.items()]
    offset = 0
    for name, shape, content in tensors:
        head.append(tensor(name, *shape, offset=offset))
        offset = padded(offset + len(content))
    start = b"".join(head)
    body = b"".join(content.ljust(padded(len(content)), b"\0") for _, _, content in tensors)
    return start.ljust(padded(len(start)), b"\0") + body


def tensor(name: str, *shape: int, offset: int, kind: int = 0) -> bytes:
    """A line of the table of tensors."""
    return _text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


def signed(numbers: Sequence[int]) -> bytes:
    """A value: a list of signed numbers, such as the kinds of tokens."""
    return struct.pack("<IIQ", LIST, I32, len(numbers)) + struct.pack(f"<{len(numbers)}i", *numbers)


def padded(length: int) -> int:
    return -(-length // ALIGNMENT) * ALIGNMENT


def model_file(path: Path, size_bytes: int, *, seed: int = 1, **values: Any) -> Path:
    """A file of about that size that says it is a small llama; no engine could answer with it."""
    noise = random.Random(seed).randbytes(size_bytes // 4 * 4)
    path.write_bytes(gguf(LLAMA | {name.replace("__", "."): value for name, value in values.items()}, [noise]))
    return path


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def _value(value: Any) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", U32, value)
    if isinstance(value, float):
        return struct.pack("<If", F32, value)
    if isinstance(value, str):
        return struct.pack("<I", TEXT) + _text(value)
    if isinstance(value, bytes):  # already as it is to stand there
        return value
    inner = _value(value[0])[:4] if value else struct.pack("<I", U32)
    return struct.pack("<I", LIST) + inner + struct.pack("<Q", len(value)) + b"".join(_value(v)[4:] for v in value)
