"""Both languages give the same bytes for 3,000 random recorded answers, in every shape and with fresh ids; for 20,000
with `make slow`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable

import pytest

from foretold.projections import shapes
from foretold.projections.fold import NotAnAnswer
from tests.contract.javascript import lines_of
from tests.contract.random_answers import random_answers

# Seed and count; the many are others than the few.
FEW, MANY = (20_261_201, 3_000), (20_261_202, 20_000)

Recorded = tuple[str, str, bytes, bytes]
"""Operation, shape, body, randomness."""


def outcomes_of(recorded: Recorded) -> list[str | None]:
    """The texts of all that can be made of a recorded answer, in the order of worker/test/projections.js."""
    operation, shape, body, chance = recorded

    def there_and_back() -> bytes:
        if shape == "whole":
            transcript = shapes.events(operation, body, shape=shape, usage=True)
            return shapes.whole(operation, transcript, shape="events")
        answer = shapes.whole(operation, body, shape=shape)
        return shapes.events(operation, answer, shape="whole", usage=True)

    ways: list[Callable[[], bytes]] = [
        lambda: shapes.whole(operation, body, shape=shape),
        lambda: shapes.whole(operation, body, shape=shape, randomness=chance),
        lambda: shapes.events(operation, body, shape=shape, usage=True),
        lambda: shapes.events(operation, body, shape=shape, usage=False),
        lambda: shapes.events(operation, body, shape=shape, usage=True, randomness=chance),
        there_and_back,
    ]
    return [_text_or_none(way) for way in ways]


def _text_or_none(way: Callable[[], bytes]) -> str | None:
    try:
        return way().decode()
    except NotAnAnswer:
        return None


def _line_of(recorded: Recorded) -> str:
    operation, shape, body, chance = recorded
    told = {"body": base64.b64encode(body).decode(), "randomness": base64.b64encode(chance).decode()}
    return json.dumps({"operation": operation, "shape": shape, **told})


@pytest.fixture(
    scope="module", params=[pytest.param(FEW, id="few"), pytest.param(MANY, id="many", marks=pytest.mark.slow)]
)
def drawn(request) -> tuple[int, int]:
    """Seed and count of the random answers."""
    return request.param


@pytest.fixture(scope="module")
def answers(drawn) -> list[Recorded]:
    return list(random_answers(*drawn))


@pytest.fixture(scope="module")
def outcomes(answers) -> list[list[str | None]]:
    return [outcomes_of(recorded) for recorded in answers]


def test_javascript_makes_the_same_of_our_answers(answers, outcomes):
    theirs = [
        json.loads(line) for line in lines_of("projections.js", told="".join(f"{_line_of(a)}\n" for a in answers))
    ]

    differing = [(a, o, t) for a, o, t in zip(answers, outcomes, theirs, strict=True) if o != t]
    assert differing[:3] == []


def test_the_answers_are_of_every_kind(answers, outcomes):
    none = sum(None in made for made in outcomes)
    with_calls = sum(made[0] != made[1] or made[2] != made[4] for made in outcomes)
    less_usage = sum(made[2] != made[3] for made in outcomes)

    assert len(answers) / 100 < none < len(answers) / 4
    assert with_calls > len(answers) / 10
    assert less_usage > len(answers) / 10
    assert {recorded[:2] for recorded in answers} == {
        (operation, shape) for operation in ("chat", "completion") for shape in ("whole", "events")
    }
