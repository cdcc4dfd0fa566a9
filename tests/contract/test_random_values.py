"""Both languages make the same of 40,000 random texts, and RFC 8785's own package makes it too; of 200,000 with
`make slow`.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter

import pytest
import rfc8785

from foretold.contract.canonical import Unkeyable, canonical, read
from foretold.errors import Malformed
from tests.contract.javascript import lines_of
from tests.contract.random_texts import random_texts

# Seed and count; the many are others than the few.
FEW, MANY = (20_261_130, 20_000), (20_261_131, 100_000)
KINDS = {"malformed", "unkeyable-repeat", "unkeyable-surrogate", "unkeyable-number", "digest"}


def outcome_of(text: bytes) -> str:
    try:
        return hashlib.sha256(canonical(read(text))).hexdigest()
    except Unkeyable as e:
        return f"unkeyable-{e.why}"
    except Malformed:
        return "malformed"


def _line_of(text: bytes) -> str:
    """A line of ASCII for a text: a JSON string, or its bytes where it is no UTF-8."""
    try:
        return json.dumps(text.decode())
    except UnicodeDecodeError:
        return json.dumps({"base64": base64.b64encode(text).decode()})


def _text_of(told: str | dict[str, str]) -> bytes:
    return told.encode() if isinstance(told, str) else base64.b64decode(told["base64"])


def _kind_of(outcome: str) -> str:
    return outcome if outcome in KINDS else "digest"


def _differing(texts: list[bytes], here: list[str], there: list[str]) -> list[tuple[bytes, str, str]]:
    return [(text, h, t) for text, h, t in zip(texts, here, there, strict=True) if h != t][:5]


@pytest.fixture(
    scope="module", params=[pytest.param(FEW, id="few"), pytest.param(MANY, id="many", marks=pytest.mark.slow)]
)
def drawn(request) -> tuple[int, int]:
    """Seed and count of the random texts of each side."""
    return request.param


@pytest.fixture(scope="module")
def texts(drawn) -> list[bytes]:
    return list(random_texts(*drawn))


@pytest.fixture(scope="module")
def outcomes(texts) -> list[str]:
    return [outcome_of(text) for text in texts]


@pytest.fixture(scope="module")
def from_node(drawn) -> tuple[list[bytes], list[str]]:
    lines = [json.loads(line) for line in lines_of("random_values.js", *map(str, drawn))]
    return [_text_of(line["text"]) for line in lines], [line["outcome"] for line in lines]


def test_javascript_makes_the_same_of_our_texts(texts, outcomes):
    theirs = lines_of("digests.js", told="".join(f"{_line_of(text)}\n" for text in texts))

    assert _differing(texts, outcomes, theirs) == []


def test_we_make_the_same_of_the_texts_of_javascript(from_node, drawn):
    theirs, outcomes = from_node

    ours = [outcome_of(text) for text in theirs]

    assert len(theirs) == drawn[1]
    assert _differing(theirs, ours, outcomes) == []


def test_the_canonical_form_is_that_of_rfc_8785(texts, outcomes, from_node, drawn):
    keyed = [
        text
        for text, outcome in zip(texts + from_node[0], outcomes + from_node[1], strict=True)
        if _kind_of(outcome) == "digest"
    ]

    differing = [text for text in keyed if canonical(read(text)) != rfc8785.dumps(json.loads(text))]

    assert len(keyed) > drawn[1]
    assert differing == []


@pytest.mark.parametrize("source", ["ours", "theirs"])
def test_the_texts_are_of_every_kind(source, outcomes, from_node, drawn):
    kinds = Counter(map(_kind_of, outcomes if source == "ours" else from_node[1]))

    assert kinds.keys() == KINDS
    assert min(kinds.values()) > drawn[1] / 100
    assert kinds["digest"] > drawn[1] / 2
