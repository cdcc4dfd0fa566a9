"""`POST /predict/{model}` on a text model: one user message there, `{"output": text}` back (rule R3)."""

from __future__ import annotations

from typing import Any

from foretold.errors import Malformed
from foretold.projections import verbatim

_OPTIONS = ("max_tokens", "temperature", "seed", "stop")


def question_of(body: bytes) -> dict[str, Any]:
    """The chat body that asks a text model the same; raises Malformed for anything but the five known members."""
    asked = verbatim.object_in(body)
    if asked is None:
        raise Malformed("the body is not a JSON object that a text model can be asked by")
    if not isinstance(asked.get("prompt"), str):
        raise Malformed('a text model is asked by {"prompt": "…"}: `prompt` must be a text', param="prompt")
    unknown = sorted(asked.keys() - {"prompt", *_OPTIONS})
    if unknown:
        known = ", ".join(("prompt", *_OPTIONS))
        raise Malformed(f"a text model has no {unknown[0]!r}: known are {known}", param=unknown[0])
    options = {name: asked[name] for name in _OPTIONS if asked.get(name) is not None}
    return {"messages": [{"role": "user", "content": asked["prompt"]}], **options}


def answer_of(chat: dict[str, Any]) -> bytes:
    """The text of a chat completion as a prediction."""
    content = chat["choices"][0]["message"]["content"]
    return verbatim.written({"output": "" if content is None else content})
