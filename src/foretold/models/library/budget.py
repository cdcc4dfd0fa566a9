"""What a model will take, predicted from its header: files on disk, memory of its own process, and how much there is."""

from __future__ import annotations

from typing import Any

from foretold.errors import ModelError
from foretold.models.library.gguf import BadGguf, Header
from foretold.models.manifest import KV_BYTES, Manifest
from foretold.models.memory import memory_bytes

# The interpreter, the engine's own tables, and its buffers for a batch of 64 tokens.
_BASE_BYTES = 24_000_000
_BATCH = 64
_FLOAT_BYTES = 4
_BUFFERS_OF_WIDTH = 16


def token_bytes(header: Header, *, k: str, v: str) -> int:
    """What the engine keeps in memory for each token of context.  Raises BadGguf where the header doesn't say."""
    layers = _whole(header, "block_count")
    heads = header.own("attention.head_count")
    kv_heads = header.own("attention.head_count_kv")
    width = _whole(header, "embedding_length")
    some_heads = max(_each(heads, layers), default=0)
    head_width = width // some_heads if some_heads else 0
    key = header.own("attention.key_length") or head_width
    value = header.own("attention.value_length") or head_width
    if not isinstance(key, int) or not isinstance(value, int):
        raise BadGguf("its header gives the length of keys and values as something else than whole numbers")
    total_heads = sum(_each(heads if kv_heads is None else kv_heads, layers))
    return max(1, round(total_heads * (key * KV_BYTES[k] + value * KV_BYTES[v])))


def fixed_bytes(header: Header) -> int:
    """What its process takes beside weights and context."""
    vocabulary = header.values.get("tokenizer.ggml.tokens", ())
    words = vocabulary.length if hasattr(vocabulary, "length") else len(vocabulary)
    width = _whole(header, "embedding_length")
    return _BASE_BYTES + _BATCH * _FLOAT_BYTES * (words + _BUFFERS_OF_WIDTH * width)


def check_fits(manifest: Manifest, *, there_bytes: int | None = None) -> None:
    """Raises ModelError, with both numbers, for a model that this machine's memory (`there_bytes`) cannot hold."""
    there_bytes = there_bytes if there_bytes is not None else memory_bytes()
    needed_bytes = manifest.memory_bytes + manifest.size_bytes
    if there_bytes is not None and needed_bytes > there_bytes:
        raise ModelError(
            f"model {manifest.name!r} needs {needed_bytes / 1e6:,.0f} MB of memory ({manifest.size_bytes / 1e6:,.0f} MB of"
            f" weights, {manifest.memory_bytes / 1e6:,.0f} MB for {manifest.parallel} × {manifest.context:,} tokens), and this"
            f" machine has {there_bytes / 1e6:,.0f} MB: set a smaller `context` or `parallel`, or take a smaller model"
        )


def _whole(header: Header, name: str) -> int:
    value = header.own(name)
    if type(value) is not int or not 0 < value <= 2**31:
        raise BadGguf(f"its header has no {header.architecture}.{name}: it is no language model, or is damaged")
    return value


def _each(value: Any, layers: int) -> list[int]:
    """A number for each layer, given as one for all or as a list."""
    values = list(value) if isinstance(value, tuple) else [value] * min(layers, 65_536)
    if any(type(v) is not int or not 0 <= v <= 2**20 for v in values):
        raise BadGguf("its header doesn't say how many heads its layers have")
    return values
