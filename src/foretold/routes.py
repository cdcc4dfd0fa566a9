"""Which origin answers a query, and by which rules: the first route that matches."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from foretold.contract.freshness import Lifetimes
from foretold.errors import NotFound
from foretold.halves import Halves
from foretold.patterns import is_pattern, matches
from foretold.ports import Asked, Origin

MODEL_OPERATIONS = frozenset({"chat", "completion", "embedding", "predict"})


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """`kind` is `model`, `json`, `get` or `undeclared`; `models` are patterns of names, `path` one of a declared route.

    `languages` are those of the questions it takes, any if there are none; `sent_model` is what its upstream is asked
    for, if not what was asked for here.  `waits_for_second` keeps an answer only if its key was asked for before;
    `known_model` is the one that this node runs itself; `first` is `origin` without its fallbacks, where it has any.
    """

    name: str
    kind: str
    origin: Origin
    models: tuple[str, ...] = ()
    languages: frozenset[str] = frozenset()
    sent_model: str = ""
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
        return self.known_model or self.sent_model or sent

    def matches(self, asked: Asked) -> bool:
        """Whether it takes such a query, if the language is right."""
        if self.kind == "model":
            return asked.operation in MODEL_OPERATIONS and any(matches(asked.model, m) for m in self.models)
        if self.kind == "undeclared":
            return asked.operation == ""
        return asked.operation.startswith(f"{self.kind} ") and matches(asked.path, self.path)


class Routes:
    def __init__(self, routes: Iterable[Route], *, language_of: Callable[[Asked], str | None] = lambda asked: None):
        """`language_of` is asked only where a route chooses by it; it gives the same for the same body each time."""
        self._routes: Sequence[Route] = tuple(routes)
        self._language_of = language_of
        self._matched: Halves[tuple[Route, ...]] = Halves(1024)

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
        if matched is None:
            matched = self._candidates(asked)
            if matched and len(asked.model) + len(asked.path) <= 1024:
                self._matched.put(place, matched, cost=1)
        if matched and not matched[0].languages:
            return matched[0]
        if matched:
            return self._by_language(matched, asked)
        if asked.operation in MODEL_OPERATIONS:
            raise NotFound(_no_model(asked.model, self.known_models), param="model", code="model_not_found")
        raise NotFound(f"nothing answers {asked.method} {asked.path} here", code="unknown_path")

    def _candidates(self, asked: Asked) -> tuple[Route, ...]:
        """The routes that may take such a query, up to the first that takes any language."""
        found = []
        for route in self._routes:
            if route.matches(asked):
                found.append(route)
                if not route.languages:
                    break
        return tuple(found)

    def _by_language(self, candidates: Sequence[Route], asked: Asked) -> Route:
        language = self._language_of(asked)
        for route in candidates:
            if not route.languages or language in route.languages:
                return route
        said = "a language that can't be told" if language is None else f"{language!r}"
        raise NotFound(
            f"No route takes {asked.model[:100]!r} in {said}: add one without `languages` behind the others",
            param="model",
            code="model_not_found",
        )


def _no_model(model: str, known: Sequence[str]) -> str:
    if not model:
        return "the query names no model: set `model`. All: GET /v1/models"
    nearest = difflib.get_close_matches(model, known, n=3, cutoff=0.4)
    near = f" Nearest: {', '.join(nearest)}." if nearest else f" Known: {', '.join(known[:3])}." if known else ""
    return f"No model {model[:100]!r}.{near} All: GET /v1/models"
