"""`POST` and `QUERY /predict/{model}`: any JSON in, any JSON out; `{"prompt": …}` for text models."""

from __future__ import annotations

from foretold.contract.controls import Controls
from foretold.contract.inputs import json_input
from foretold.contract.storable import has_limit
from foretold.dialects.body import read_body
from foretold.dialects.paths import segments_of
from foretold.dialects.problem import problem
from foretold.errors import ForetoldError
from foretold.ports import Asked, Request


class Predict:
    def read(self, request: Request, body: bytes, controls: Controls) -> Asked:
        read = read_body(body)
        return Asked(
            operation="predict",
            model="/".join(segments_of(request.path)[1:]),
            method=request.method,
            path=request.path,
            query=request.query,
            body=body,
            input=None if read.unkeyable else json_input("predict", read.value),
            passes=read.unkeyable,
            usage=False,
            limited=has_limit(read.value),
        )

    def tell(self, error: ForetoldError) -> tuple[str, bytes]:
        return problem(error)
