"""Which origin answers a query, and by which rules: the first route that matches."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from foretold.contract.freshness import Lifetimes
from foretold.errors import NotFound
from foretold.halves import Halves
from foretold.patterns import is_pattern, matches
from foretold.ports import Asked, Origin

MODEL_OPERATIONS = frozenset({"chat", "completion", "predict"})


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """`kind` is `model`, `json`, `get` or `undeclared`; `models` are patterns of names, `path` one of a declared route.

    `waits_for_second` keeps an answer only if its key was asked for before; `known_model` is the one that this node
    runs itself; `first` is `origin` without its fallbacks, where it has any.
    """

    name: str
    kind: str
    origin: Origin
    models: tuple[str, ...] = ()
    path: str = ""
    shared: bool = False
    stores: bool = True
    waits_for_second: bool = False
    lifetimes: Lifetimes = Lifetimes()
    respects_upstream: bool = False
    asks_usage: bool = True
    passes_credential: bool = False
    finishes_alone: bool = False
    collapses: bool = True
    first: Origin | None = None
    revision: str = ""
    engine: str | None = None
    keyed_headers: frozenset[str] = frozenset()
    inert_headers: frozenset[str] = frozenset()
    known_model: str | None = None

    @property
    def keyed_revision(self) -> str:
        """Rule K9: of a local model its manifest's, else what the route says, else the route's name."""
        return self.revision or self.name

    def keyed_model(self, sent: str) -> str:
        """Rule K2: the catalogue's name for it, else the text as sent."""
        return self.known_model or sent

    def matches(self, asked: Asked) -> bool:
        if self.kind == "model":
            return asked.operation in MODEL_OPERATIONS and any(matches(asked.model, m) for m in self.models)
        if self.kind == "undeclared":
            return asked.operation == ""
        return asked.operation.startswith(f"{self.kind} ") and matches(asked.path, self.path)


class Routes:
    def __init__(self, routes: Iterable[Route]):
        self._routes: Sequence[Route] = tuple(routes)
        self._matched: Halves[Route] = Halves(1024)

    def __iter__(self) -> Iterator[Route]:
        return iter(self._routes)

    @property
    def known_models(self) -> list[str]:
        """The models that can be named: those this node runs, and patterns without a wildcard."""
        names = [name for r in self._routes for name in (r.known_model, *r.models) if name and not is_pattern(name)]
        return list(dict.fromkeys(names))

    def match(self, asked: Asked) -> Route:
        """The first route that takes a query.  Raises NotFound, naming the nearest models."""
        place = (asked.operation, asked.model, asked.path)
        matched = self._matched.get(place)
        if matched is not None:
            return matched
        for route in self._routes:
            if route.matches(asked):
                if len(asked.model) + len(asked.path) <= 1024:
                    self._matched.put(place, route, cost=1)
                return route
        if asked.operation in MODEL_OPERATIONS:
            raise NotFound(_no_model(asked.model, self.known_models), param="model", code="model_not_found")
        raise NotFound(f"nothing answers {asked.method} {asked.path} here", code="unknown_path")


def _no_model(model: str, known: Sequence[str]) -> str:
    if not model:
        return "the query names no model: set `model`. All: GET /v1/models"
    nearest = difflib.get_close_matches(model, known, n=3, cutoff=0.4)
    near = f" Nearest: {', '.join(nearest)}." if nearest else f" Known: {', '.join(known[:3])}." if known else ""
    return f"No model {model[:100]!r}.{near} All: GET /v1/models"
