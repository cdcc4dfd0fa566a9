"""Embeddings that tell their inputs, so that a foreign or misplaced one shows."""

from __future__ import annotations

import hashlib
import json
from array import array
from base64 import b64encode
from typing import Any

DIMENSIONS = 8


def vector(text: Any) -> list[float]:
    """The embedding of an input, each number as short as its float32 can be told."""
    digest = hashlib.sha256(json.dumps(text).encode()).digest()
    return [(2 * byte - 255) / 2000 for byte in digest[:DIMENSIONS]]


def embeddings(asked: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request, as it is uncached."""
    given = asked["input"]
    is_one = isinstance(given, str) or isinstance(given[0], int)
    inputs = [given] if is_one else given
    data = [{"object": "embedding", "index": i, "embedding": told(asked, text)} for i, text in enumerate(inputs)]
    tokens = sum(map(len, inputs))
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": asked["model"], "usage": usage}


def told(asked: dict[str, Any], text: Any) -> Any:
    floats = vector(text)
    is_base64 = asked.get("encoding_format") == "base64"
    return b64encode(array("f", floats).tobytes()).decode() if is_base64 else floats
