"""GGUF files made by hand: headers of any kind, and weights that are noise."""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

F32, U32, TEXT, LIST = 6, 4, 8, 9
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


def gguf(values: Mapping[str, Any] = LLAMA, tensors: Sequence[bytes] = (b"\0" * 128,), *, version: int = 3) -> bytes:
    """A file with these entries and these tensors, each of one dimension and of 32-bit numbers."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(values))
    head += b"".join(_text(name) + _value(value) for name, value in values.items())
    offset = 0
    for at, content in enumerate(tensors):
        head += tensor(f"t{at}", len(content) // 4, offset=offset)
        offset = padded(offset + len(content))
    body = b"".join(content.ljust(padded(len(content)), b"\0") for content in tensors)
    return head.ljust(padded(len(head)), b"\0") + body


def tensor(name: str, count: int, *, offset: int, kind: int = 0) -> bytes:
    """A line of the table of tensors."""
    return _text(name) + struct.pack("<IQIQ", 1, count, kind, offset)


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
