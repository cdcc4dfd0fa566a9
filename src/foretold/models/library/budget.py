"""What a model will take, predicted from its header: files on disk, memory of its own process, and how much there is."""

from __future__ import annotations

from typing import Any, NamedTuple

from foretold.errors import ConfigError, ModelError
from foretold.models.library import abilities
from foretold.models.library.gguf import BadGguf, Header
from foretold.models.manifest import KV_BYTES, Manifest
from foretold.models.memory import memory_bytes

_IN_BLOCK = 32
# Measured (bench/predicted.py): the interpreter and the engine; its tables of a word of the vocabulary, once and for each
# slot; which tokens each of a batch of 64 may look at; numbers it computes with, in widths of the model.
_BASE_BYTES = 16_000_000
_WORD_BYTES = 300
_SLOT_WORD_BYTES = 16
_BATCH = 64
_MASK_BYTES = 5
_FLOAT_BYTES = 4
_BUFFERS_OF_WIDTH = 11


class Takes(NamedTuple):
    """Private memory of a process: at all, and for a token of context, as a manifest says it."""

    fixed_bytes: int
    token_bytes: int


def predicted(header: Header, *, k: str, v: str, parallel: int) -> Takes:
    """What a model takes.  Raises BadGguf where the header doesn't say.

    One that makes vectors works on a whole input at once, so its buffers grow with the context; it looks at one input
    at a time, so they don't grow with `parallel`.
    """
    _check_kept(header, k=k, v=v)
    if not abilities.embeds(header):
        return Takes(fixed_bytes(header, parallel=parallel), token_bytes(header, k=k, v=v))
    keeps_tokens = not abilities.is_encoder(header)
    kept_bytes = token_bytes(header, k=k, v=v) * parallel if keeps_tokens else 0
    return Takes(_tables_bytes(header, parallel=parallel), _buffer_bytes(header) + kept_bytes)


def token_bytes(header: Header, *, k: str, v: str) -> int:
    """What the engine needs in memory for each token of context.  Raises BadGguf where the header doesn't say."""
    layers = _whole(header, "block_count")
    heads = header.own("attention.head_count")
    kv_heads = header.own("attention.head_count_kv")
    key, value = _lengths(header)
    total_heads = sum(_each(heads if kv_heads is None else kv_heads, layers))
    return round(total_heads * (key * KV_BYTES[k] + value * KV_BYTES[v])) + _BATCH * _MASK_BYTES


def _lengths(header: Header) -> tuple[int, int]:
    """Of a key and of a value."""
    layers, width = _whole(header, "block_count"), _whole(header, "embedding_length")
    some_heads = max(_each(header.own("attention.head_count"), layers), default=0)
    head_width = width // some_heads if some_heads else 0
    key = header.own("attention.key_length") or head_width
    value = header.own("attention.value_length") or head_width
    if not isinstance(key, int) or not isinstance(value, int):
        raise BadGguf("its header gives the length of keys and values as something else than whole numbers")
    return key, value


def _check_kept(header: Header, *, k: str, v: str) -> None:
    """Raises ConfigError for a type that the engine can't keep this model's context in."""
    for kind, length in zip((k, v), _lengths(header), strict=True):
        if kind not in ("f32", "f16", "bf16") and length % _IN_BLOCK:
            raise ConfigError(
                f"context can't be kept as {kind}: that takes keys and values in blocks of {_IN_BLOCK}, and this model's"
                f" are {length} long; keep it as f16"
            )


def fixed_bytes(header: Header, *, parallel: int) -> int:
    """What its process takes beside weights and context."""
    return _tables_bytes(header, parallel=parallel) + _BATCH * _buffer_bytes(header)


def _tables_bytes(header: Header, *, parallel: int) -> int:
    return _BASE_BYTES + _words(header) * (_WORD_BYTES + _SLOT_WORD_BYTES * parallel)


def _buffer_bytes(header: Header) -> int:
    """What the engine computes with, for each token of a batch."""
    return _FLOAT_BYTES * (_words(header) + _BUFFERS_OF_WIDTH * _whole(header, "embedding_length"))


def _words(header: Header) -> int:
    """Of its vocabulary."""
    vocabulary = header.values.get("tokenizer.ggml.tokens", ())
    return int(vocabulary.length if hasattr(vocabulary, "length") else len(vocabulary))


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
