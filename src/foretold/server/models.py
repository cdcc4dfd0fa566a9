"""`GET /v1/models`: the models that can be named here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from foretold.contract.namespace import presented
from foretold.dialects.paths import segments_of, without_v1
from foretold.errors import NotFound
from foretold.models.managing import Managing
from foretold.models.manifest import Manifest
from foretold.ports import Request
from foretold.routes import Routes
from foretold.scope import Scope


class Models:
    def __init__(self, routes: Routes, scope: Scope, *, manifests: Mapping[str, Manifest], managing: Managing):
        """`manifests` are those of the models that run here, by name; `managing` knows what they do just now."""
        self._names = routes.known_models
        self._revisions = {r.known_model: r.keyed_revision for r in routes if r.known_model is not None}
        self._passes = any(r.kind == "undeclared" for r in routes)
        self._scope = scope
        self._manifests = manifests
        self._managing = managing

    async def answer(self, request: Request) -> bytes | None:
        """The list, or one model; None for another path, and where only an upstream knows.  Raises Refused."""
        segments = without_v1(segments_of(request.path))
        if segments[:1] != ("models",) or (self._passes and not self._names):
            return None
        self._scope.tenant(presented(request.headers))
        states = await self._states()
        if len(segments) == 1:
            return orjson.dumps({"object": "list", "data": [self._told(name, states) for name in self._names]})
        name = "/".join(segments[1:])
        if name in self._names:
            return orjson.dumps(self._told(name, states))
        if self._passes:
            return None
        raise NotFound(f"No model {name[:100]!r}. All: GET /v1/models", param="model", code="model_not_found")

    async def _states(self) -> dict[str, str]:
        if not self._manifests:
            return {}
        return {one["name"]: one["state"] for one in (await self._managing.list())["models"]}

    def _told(self, name: str, states: Mapping[str, str]) -> dict[str, Any]:
        """What OpenAI tells of a model, and of one that runs here what it is, what it can do, and whether it is loaded."""
        told: dict[str, Any] = {"id": name, "object": "model", "created": 0, "owned_by": "foretold"}
        if name in self._revisions:
            told["revision"] = self._revisions[name]
        manifest = self._manifests.get(name)
        if manifest is not None:
            told["capabilities"] = sorted(manifest.capabilities)
            told["context"] = manifest.context
            told["languages"] = list(manifest.languages)
            told["state"] = states.get(name, "unloaded")
        return told
