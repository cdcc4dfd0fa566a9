"""Embeddings as OpenAI has them: one query for each input, and the answer in the form that is asked for (rule P5)."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from foretold.contract.controls import Controls
from foretold.contract.inputs import embedding_inputs, json_input
from foretold.dialects.openai import OpenAI
from foretold.ports import Asked, Request
from foretold.projections.embedding import FORMS

# Where these ask for anything but floats, base64 tells other numbers.
_KINDS = ("output_dtype", "embedding_type", "embedding_types")


class Embeddings(OpenAI):
    def __init__(self) -> None:
        super().__init__("embedding", "/embeddings")

    def read(self, request: Request, body: bytes, controls: Controls) -> Asked:
        value, asked = self._members(request, body)
        if asked.passes is not None:
            return asked
        inputs = tuple(json_input("embedding", one, ignored=controls.ignored) for one in embedding_inputs(value))
        form = _form(value)
        if form is None:
            return replace(asked, passes="encoding-format")
        asked = replace(asked, streamed=False, usage=True, projection=form)
        return replace(asked, input=inputs[0]) if len(inputs) == 1 else replace(asked, inputs=inputs)


def _form(value: dict[str, Any]) -> str | None:
    """The form that is asked for; None if we know nothing of it."""
    if any(value.get(name) not in (None, "float") for name in _KINDS):
        return None
    form = value.get("encoding_format")
    return "float" if form is None else form if form in FORMS else None
