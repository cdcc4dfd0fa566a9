"""The OpenAI dialect: chat and text completions, whole and streamed."""

from __future__ import annotations

from typing import Any

import orjson
from msgspec.structs import replace

from foretold.contract.aliases import body_controls
from foretold.contract.controls import NONE, Controls
from foretold.contract.inputs import json_input, must_pass
from foretold.contract.storable import has_limit
from foretold.dialects.body import read_body
from foretold.errors import ForetoldError, Malformed, Refused
from foretold.flights.forwarding import from_raw_members, raw_members
from foretold.ports import Asked, Request


class OpenAI:
    def __init__(self, operation: str, path: str):
        self._operation = operation
        self._path = path

    def read(self, request: Request, body: bytes, controls: Controls) -> Asked:
        value, asked = self._members(request, body)
        if asked.passes is not None:
            return asked
        return replace(asked, input=json_input(self._operation, value, ignored=controls.ignored))

    def _members(self, request: Request, body: bytes) -> tuple[dict[str, Any], Asked]:
        """The body's members, and what is asked but for its input."""
        read = read_body(body)
        value = read.value
        if not isinstance(value, dict):
            raise Malformed("the body must be a JSON object")
        model = value.get("model")
        if model is not None and not isinstance(model, str):
            raise Malformed("`model` must be a text", param="model")
        passes = read.unkeyable or must_pass(self._operation, value)
        controls_in_body = NONE
        if isinstance(value.get("cache"), dict) and passes != "unkeyable-repeat":
            controls_in_body = body_controls(value["cache"])
            body = from_raw_members({n: raw for n, raw in raw_members(body).items() if n != "cache"})
        streamed = value.get("stream") is True
        options = value.get("stream_options")
        return value, Asked(
            operation=self._operation,
            model=model or "",
            method=request.method,
            path=self._path,
            query=request.query,
            body=body,
            passes=passes,
            streamed=streamed,
            usage=not streamed or (isinstance(options, dict) and options.get("include_usage") is True),
            limited=has_limit(value),
            controls=controls_in_body,
        )

    def tell(self, error: ForetoldError) -> tuple[str, bytes]:
        return "application/json", orjson.dumps({"error": told(error)})


def told(error: ForetoldError) -> dict[str, Any]:
    """An error as OpenAI's clients read it."""
    if not isinstance(error, Refused):
        return {"message": str(error), "type": "server_error", "param": None, "code": error.code}
    kind = "authentication_error" if error.status_here == 401 else "invalid_request_error"
    return {
        "message": str(error),
        "type": kind if error.status_here < 500 else "server_error",
        "param": error.param,
        "code": error.code_here,
    }
