"""Paths that a configuration declares as JSON or GET routes, and those that nobody declared."""

from __future__ import annotations

import orjson

from foretold.contract.controls import Controls
from foretold.contract.inputs import bytes_input, json_input
from foretold.dialects.body import read_body
from foretold.dialects.openai import told
from foretold.dialects.problem import problem
from foretold.errors import ForetoldError
from foretold.ports import Asked, Request


class Declared:
    """One `[[routes]]` of kind `json` or `get`: the whole body counts, nothing in it is a control."""

    def __init__(self, kind: str):
        self._kind = kind

    def read(self, request: Request, body: bytes, controls: Controls) -> Asked:
        passes, form, digest = None, "bytes", None
        if self._kind == "json":
            read = read_body(body)
            passes, form = read.unkeyable, "json"
            digest = None if passes else json_input("json", read.value)
        else:
            digest = bytes_input(body)
        return Asked(
            operation=f"{self._kind} {request.path}",
            model="",
            method=request.method,
            path=request.path,
            query=request.query,
            body=body,
            form=form,
            input=digest,
            passes=passes,
            usage=False,
        )

    def tell(self, error: ForetoldError) -> tuple[str, bytes]:
        return problem(error)


class Undeclared:
    """A path we know nothing of: it goes to its upstream as it came, and its answer is never kept."""

    def read(self, request: Request, body: bytes, controls: Controls) -> Asked:
        return Asked(
            operation="",
            model="",
            method=request.method,
            path=request.path,
            query=request.query,
            body=body,
            form="bytes",
            passes="undeclared",
        )

    def tell(self, error: ForetoldError) -> tuple[str, bytes]:
        return "application/json", orjson.dumps({"error": told(error)})
