"""`POST /predict/{model}` on a text model: one user message there, `{"output": text}` back (rule R3)."""

from __future__ import annotations

from typing import Any

import orjson

from foretold.errors import Malformed

_OPTIONS = ("max_tokens", "temperature", "seed", "stop")


def question_of(body: bytes) -> dict[str, Any]:
    """The chat body that asks a text model the same; raises Malformed for anything but the five known members."""
    try:
        asked = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise Malformed("the body is not JSON that a text model can be asked by") from None
    if not isinstance(asked, dict) or not isinstance(asked.get("prompt"), str):
        raise Malformed('a text model is asked by {"prompt": "…"}: `prompt` must be a text', param="prompt")
    unknown = sorted(asked.keys() - {"prompt", *_OPTIONS})
    if unknown:
        known = ", ".join(("prompt", *_OPTIONS))
        raise Malformed(f"a text model has no {unknown[0]!r}: known are {known}", param=unknown[0])
    options = {name: asked[name] for name in _OPTIONS if asked.get(name) is not None}
    return {"messages": [{"role": "user", "content": asked["prompt"]}], **options}


def answer_of(chat: dict[str, Any]) -> bytes:
    """The text of a chat completion as a prediction."""
    return orjson.dumps({"output": chat["choices"][0]["message"]["content"] or ""})
