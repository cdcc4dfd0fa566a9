"""Models of some hundred kilobytes that the real engine loads in milliseconds: noise for weights, bytes for words.

What they say is nonsense, the same for the same seed.
"""

from __future__ import annotations

import hashlib
import random
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from foretold.models.library.describing import Said, described, header_of
from foretold.models.manifest import File, Manifest
from tests.library.gguf_file import Tensor, gguf_of, signed

WIDTH, LAYERS, HEADS, KV_HEADS, INNER = 64, 2, 4, 2, 128
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# As Hermes and Qwen tell tools and their calls.
WITH_TOOLS = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- "# Tools\\n\\nYou may call one or more functions to assist with the user query.\\n\\nYou are provided with function signatures within <tools></tools> XML tags:\\n<tools>" }}
    {%- for tool in tools %}{{- "\\n" }}{{- tool | tojson }}{%- endfor %}
    {{- "\\n</tools>\\n\\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\\n<tool_call>\\n{\\"name\\": <function-name>, \\"arguments\\": <args-json-object>}\\n</tool_call><|im_end|>\\n" }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'user' or message.role == 'system' %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}{{- '\\n' + message.content }}{%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' + tool_call.name + '", "arguments": ' + tool_call.arguments | tojson + '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""
_NORMAL, _CONTROL, _BYTE = 1, 3, 6
_PIECES = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>", "<tool_call>\n", "</tool_call>"]


def llama(
    path: Path,
    *,
    template: str | None = CHATML,
    seed: int = 1,
    context: int = 4096,
    heads: int = HEADS,
    kv_heads: int = KV_HEADS,
    **values: Any,
) -> Path:
    """A chat model; `values` are entries of its header, with `__` for a dot."""
    tokens = [*_PIECES, *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "e", "t"]
    kinds = [_CONTROL] * 5 + [_NORMAL] * 2 + [_BYTE] * 256 + [_NORMAL] * 4
    head: dict[str, Any] = {
        "general.architecture": "llama",
        "general.license": "apache-2.0",
        "llama.context_length": context,
        "llama.block_count": LAYERS,
        "llama.embedding_length": WIDTH,
        "llama.feed_forward_length": INNER,
        "llama.attention.head_count": heads,
        "llama.attention.head_count_kv": kv_heads,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": WIDTH // heads,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0] * len(tokens),
        "tokenizer.ggml.token_type": signed(kinds),
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 4,
        "tokenizer.ggml.add_space_prefix": False,
    }
    if template is not None:
        head["tokenizer.chat_template"] = template
    head |= {name.replace("__", "."): value for name, value in values.items()}
    noise = _Noise(seed)
    kv_width = WIDTH // heads * kv_heads
    tensors = [noise("token_embd.weight", WIDTH, len(tokens)), noise("output.weight", WIDTH, len(tokens))]
    tensors += [_ones("output_norm.weight", WIDTH)]
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        tensors += [
            _ones(f"{block}.attn_norm.weight", WIDTH),
            _ones(f"{block}.ffn_norm.weight", WIDTH),
            noise(f"{block}.attn_q.weight", WIDTH, WIDTH),
            noise(f"{block}.attn_k.weight", WIDTH, kv_width),
            noise(f"{block}.attn_v.weight", WIDTH, kv_width),
            noise(f"{block}.attn_output.weight", WIDTH, WIDTH),
            noise(f"{block}.ffn_gate.weight", WIDTH, INNER),
            noise(f"{block}.ffn_up.weight", WIDTH, INNER),
            noise(f"{block}.ffn_down.weight", INNER, WIDTH),
        ]
    path.write_bytes(gguf_of(head, tensors))
    return path


def bert(path: Path, *, pooling: int | None = 1, seed: int = 1, context: int = 256, **values: Any) -> Path:
    """A model that makes vectors; `pooling` 1 is the mean, None says nothing of it."""
    letters = [chr(letter) for letter in range(ord("a"), ord("z") + 1)]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"▁{letter}" for letter in letters), *letters]
    head: dict[str, Any] = {
        "general.architecture": "bert",
        "bert.context_length": context,
        "bert.block_count": LAYERS,
        "bert.embedding_length": WIDTH,
        "bert.feed_forward_length": INNER,
        "bert.attention.head_count": HEADS,
        "bert.attention.layer_norm_epsilon": 1e-12,
        "bert.attention.causal": False,
        "tokenizer.ggml.model": "bert",
        "tokenizer.ggml.token_type_count": 2,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": signed([_CONTROL] * 5 + [_NORMAL] * (len(tokens) - 5)),
        "tokenizer.ggml.padding_token_id": 0,
        "tokenizer.ggml.unknown_token_id": 1,
        "tokenizer.ggml.bos_token_id": 2,
        "tokenizer.ggml.eos_token_id": 3,
        "tokenizer.ggml.cls_token_id": 2,
        "tokenizer.ggml.seperator_token_id": 3,
        "tokenizer.ggml.mask_token_id": 4,
    }
    if pooling is not None:
        head["bert.pooling_type"] = pooling
    head |= {name.replace("__", "."): value for name, value in values.items()}
    noise = _Noise(seed)
    tensors = [
        noise("token_embd.weight", WIDTH, len(tokens)),
        noise("position_embd.weight", WIDTH, context),
        noise("token_types.weight", WIDTH, 2),
        *_norm("token_embd_norm"),
    ]
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            tensors += [noise(f"{block}.{part}.weight", WIDTH, WIDTH), _zeros(f"{block}.{part}.bias", WIDTH)]
        tensors += [noise(f"{block}.ffn_up.weight", WIDTH, INNER), _zeros(f"{block}.ffn_up.bias", INNER)]
        tensors += [noise(f"{block}.ffn_down.weight", INNER, WIDTH), _zeros(f"{block}.ffn_down.bias", WIDTH)]
        tensors += [*_norm(f"{block}.attn_output_norm"), *_norm(f"{block}.layer_output_norm")]
    path.write_bytes(gguf_of(head, tensors))
    return path


def described_as(path: Path, **said: Any) -> Manifest:
    """The manifest that a library would make of a model's file."""
    file = File(path.name, hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_size)
    return described([header_of(path)], [file], Said(**said))


class _Noise:
    def __init__(self, seed: int):
        self._chance = random.Random(seed)

    def __call__(self, name: str, *shape: int) -> Tensor:
        count = _count(shape)
        return Tensor(name, shape, array("f", (self._chance.uniform(-0.2, 0.2) for _ in range(count))).tobytes())


def _ones(name: str, *shape: int) -> Tensor:
    return Tensor(name, shape, array("f", [1.0] * _count(shape)).tobytes())


def _norm(name: str) -> list[Tensor]:
    return [_ones(f"{name}.weight", WIDTH), _zeros(f"{name}.bias", WIDTH)]


def _zeros(name: str, *shape: int) -> Tensor:
    return Tensor(name, shape, bytes(4 * _count(shape)))


def _count(shape: Sequence[int]) -> int:
    count = 1
    for side in shape:
        count *= side
    return count
