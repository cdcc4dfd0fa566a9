"""Which dialect a request speaks, by method and path."""

from __future__ import annotations

from collections.abc import Iterable

from foretold.dialects.declared import Declared, Undeclared
from foretold.dialects.embeddings import Embeddings
from foretold.dialects.openai import OpenAI
from foretold.dialects.paths import segments_of, without_v1
from foretold.dialects.predict import Predict
from foretold.dialects.workers_ai import WorkersAI, model_in
from foretold.errors import NotFound, Refused
from foretold.patterns import matches
from foretold.ports import Dialect
from foretold.routes import Route

_OPENAI = {
    ("chat", "completions"): OpenAI("chat", "/chat/completions"),
    ("completions",): OpenAI("completion", "/completions"),
    ("embeddings",): Embeddings(),
}
_PREDICT = Predict()
_WORKERS_AI = WorkersAI()
_METHODS = {"json": ("POST", "QUERY"), "get": ("GET", "HEAD")}


class Dialects:
    def __init__(self, routes: Iterable[Route], *, base_url: str):
        """`base_url` is what clients should be set to; errors name it."""
        routes = tuple(routes)
        self._declared = [(r.kind, r.path) for r in routes if r.kind in ("json", "get")]
        self._undeclared = Undeclared() if any(r.kind == "undeclared" for r in routes) else None
        self._base_url = base_url

    def of(self, method: str, path: str) -> Dialect:
        """The dialect of a request.  Raises NotFound or, for a wrong method or an odd path, Refused."""
        for kind, pattern in self._declared:
            if matches(path, pattern) and method in _METHODS[kind]:
                segments_of(path)
                return Declared(kind)
        if model_in(path) is not None:
            return _if_method(_WORKERS_AI, method, _METHODS["json"])
        segments = segments_of(path)
        known = _OPENAI.get(without_v1(segments))
        if known is not None:
            return _if_method(known, method, _METHODS["json"])
        if segments[:1] == ("predict",) and len(segments) > 1:
            return _if_method(_PREDICT, method, _METHODS["json"])
        if self._undeclared is not None:
            return self._undeclared
        raise NotFound(self._no_such_path(method, path, without_v1(segments)), code="unknown_path")

    def _no_such_path(self, method: str, path: str, segments: tuple[str, ...]) -> str:
        if segments[:2] in _OPENAI or segments[:1] in _OPENAI:
            advice = f"set your client's base URL to {self._base_url}: it adds the rest itself"
        else:
            advice = (
                "this node answers chat and text completions and embeddings; name an upstream in `undeclared` to pass"
                " other paths to"
            )
        return f"No {method} {path[:200]} here: {advice}"


def _if_method(dialect: Dialect, method: str, allowed: Iterable[str]) -> Dialect:
    if method in allowed:
        return dialect
    raise Refused(f"{method} is not for this path: use {' or '.join(allowed)}", code="method_not_allowed", status=405)
