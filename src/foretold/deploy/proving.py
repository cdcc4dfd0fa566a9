"""Whether a deployment works, seen from where its callers are: the Worker's own self-test, its static files, and a
question that nobody has asked, twice.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from foretold.deploy import rules
from foretold.deploy.assets import Asset
from foretold.deploy.plan import Edge
from foretold.deploy.probing import Seen, chat, fetched, predict, probe, self_test
from foretold.errors import DeployError, DeployUnreachable

T = TypeVar("T")
# What has just been deployed is not everywhere at once.
TRIES = 8
PAUSE_S = 5.0
MOST_FILES = 20
ADMIN_TOKEN = "FORETOLD_ADMIN_TOKEN"  # noqa: S105  the name of a binding


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """`base` is the address up to the host; paths that don't come to the Worker are not asked."""

    base: str
    model: str
    catches: Callable[[str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What was seen; `untried` says what could not be tried and why, `wrong` what is not as it must be."""

    url: str = ""
    seen: tuple[Seen, ...] = ()
    parts: tuple[tuple[str, str], ...] = ()
    files: int = 0
    untried: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()


def target(edge: Edge, urls: tuple[str, ...], *, model: str, url: str) -> Target | None:
    """Where to ask; None if no address is known.  `url` is one that somebody named, else the first of `urls` is taken."""
    base = (url or next(iter(urls), "")).rstrip("/")
    if not base:
        return None
    host = urllib.parse.urlsplit(base).hostname or ""
    route = edge.route
    if route is None or not rules.pattern_matches(route.pattern, host=host, path=None):
        return Target(base=base, model=model, catches=lambda path: True)
    return Target(
        base=base, model=model, catches=lambda path: rules.pattern_matches(route.pattern, host=host, path=path)
    )


def prove(edge: Edge, at: Target | None, *, key: str, question: str, pause: Callable[[float], None]) -> Proof:
    """Asks all that can be asked.  A new deployment is given some time to be known."""
    if at is None:
        return Proof(untried=("no address of it is known: name one as `url` in [trial]",))
    untried: list[str] = []
    wrong: list[str] = []
    parts = _parts(edge, at, untried, wrong, pause)
    files = 0 if wrong else _files(edge, at, wrong, pause)
    seen = () if wrong else _answers(at, untried, wrong, key=key, question=question, pause=pause)
    return Proof(url=at.base, seen=seen, parts=parts, files=files, untried=tuple(untried), wrong=tuple(wrong))


def _parts(
    edge: Edge, at: Target, untried: list[str], wrong: list[str], pause: Callable[[float], None]
) -> tuple[tuple[str, str], ...]:
    token = next((s.text for s in edge.script.secrets if s.name == ADMIN_TOKEN), "")
    if not token or not at.catches("/-/selftest"):
        why = "the route does not catch /-/selftest" if token else f"no secret {ADMIN_TOKEN} is set"
        untried.append(f"the Worker's self-test: {why}")
        return ()
    try:
        parts = _patiently(lambda: self_test(at.base, token), pause)
    except DeployError as e:
        wrong.append(str(e))
        return ()
    wrong += [f"{name}: {said}" for name, said in parts if said not in ("ok", "off", "bound")]
    return parts


def _files(edge: Edge, at: Target, wrong: list[str], pause: Callable[[float], None]) -> int:
    """How many static files were looked at; Cloudflare may hold others than were sent."""
    looked_at = 0
    for file in _served(edge, at):
        if looked_at == MOST_FILES:
            break
        looked_at += 1
        try:
            is_same = _patiently(lambda f=file: _is_served(at, f), pause)  # type: ignore[misc]
        except DeployError as e:
            wrong.append(str(e))
            break
        if not is_same:
            wrong.append(f"{file.path} is not served as it was uploaded: wait a minute, then `try`; else apply again")
    return looked_at


def _is_served(at: Target, file: Asset) -> bool:
    return fetched(at.base + file.address) == file.content


def _served(edge: Edge, at: Target) -> Iterator[Asset]:
    assets = edge.script.assets
    for file in assets.files_served() if assets else ():
        if at.catches(file.address):
            yield file


def _answers(
    at: Target, untried: list[str], wrong: list[str], *, key: str, question: str, pause: Callable[[float], None]
) -> tuple[Seen, ...]:
    if not at.model:
        untried.append("a miss and a hit: no model is named; set `model` in [trial], or run `try MODEL`")
        return ()
    asked = next((a for a in (chat(at.model, question), predict(at.model, question)) if at.catches(a.path)), None)
    if asked is None:
        untried.append("a miss and a hit: the route catches neither /v1/chat/completions nor /predict/MODEL")
        return ()
    try:
        seen = _patiently(lambda: probe(at.base, asked, key=key, pause=pause), pause)
    except DeployError as e:
        wrong.append(str(e))
        return ()
    if seen[0].how != "miss" or seen[-1].how != "hit":
        wrong.append(f"no miss and then a hit in {len(seen)} answers: Cache-Status says why, in its detail")
    return tuple(seen)


def _patiently(ask: Callable[[], T], pause: Callable[[float], None]) -> T:
    """What it gives, as soon as there is an answer of the edge at all."""
    for _ in range(TRIES - 1):
        try:
            return ask()
        except DeployUnreachable:
            pause(PAUSE_S)
    return ask()
