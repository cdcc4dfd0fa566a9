"""`GET /v1/models`: the models that can be named here."""

from __future__ import annotations

import orjson

from foretold.contract.namespace import presented
from foretold.dialects.paths import segments_of, without_v1
from foretold.errors import NotFound
from foretold.ports import Request
from foretold.routes import Routes
from foretold.scope import Scope


class Models:
    def __init__(self, routes: Routes, scope: Scope):
        self._names = routes.known_models
        self._revisions = {r.known_model: r.keyed_revision for r in routes if r.known_model is not None}
        self._passes = any(r.kind == "undeclared" for r in routes)
        self._scope = scope

    def answer(self, request: Request) -> bytes | None:
        """The list, or one model; None for another path, and where only an upstream knows.  Raises Refused."""
        segments = without_v1(segments_of(request.path))
        if segments[:1] != ("models",) or (self._passes and not self._names):
            return None
        self._scope.tenant(presented(request.headers))
        if len(segments) == 1:
            return orjson.dumps({"object": "list", "data": [self._told(name) for name in self._names]})
        name = "/".join(segments[1:])
        if name in self._names:
            return orjson.dumps(self._told(name))
        if self._passes:
            return None
        raise NotFound(f"No model {name[:100]!r}. All: GET /v1/models", param="model", code="model_not_found")

    def _told(self, name: str) -> dict[str, object]:
        told: dict[str, object] = {"id": name, "object": "model", "created": 0, "owned_by": "foretold"}
        return told | {"revision": self._revisions[name]} if name in self._revisions else told
