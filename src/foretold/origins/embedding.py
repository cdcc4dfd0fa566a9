"""Texts to vectors: what a local model is asked for them, in which calls, and what its answers must be.

The engine works a call off to its end, whoever leaves meanwhile.  So a question of many texts is cut into calls that
cost about as much as the longest single text may.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from foretold.errors import OriginError, Refused
from foretold.models.manifest import Manifest
from foretold.origins import fields
from foretold.origins.refusing import bad_value, count, unknown_field

MOST_INPUTS = 2048
MOST_IN_A_CALL = 8
# What a text may cost, before anybody has counted its tokens.
_CHARACTERS_PER_TOKEN = 3
_MOST_DIMENSIONS = 65_536
_LARGEST_TOKEN = 2**31 - 1
_INERT = frozenset({"model", "user", "metadata"})
_KNOWN = ("dimensions", "encoding_format", "input")
_TOO_LONG = re.compile(r"input \((\d+) tokens\) is too large to process")

Input = str | list[int]


@dataclass(frozen=True, slots=True)
class Wanted:
    inputs: tuple[Input, ...]
    dimensions: int | None = None


class Part(NamedTuple):
    """Inputs that one call asks for, and the place of the first of them; `tokens` is a guess at all of them."""

    first: int
    inputs: tuple[Input, ...]
    tokens: int


class Vectors(NamedTuple):
    rows: list[list[float]]
    tokens: int


def wanted(body: bytes, manifest: Manifest) -> Wanted:
    """What a request for vectors asks.  Raises Refused, Malformed."""
    asked = {name: value for name, value in fields.object_of(body).items() if value is not None and name not in _INERT}
    for name in asked:
        if name not in _KNOWN:
            raise unknown_field(name, known=_KNOWN)
    if "input" not in asked:
        raise Refused("`input` is missing", param="input", code="missing_field")
    if asked.get("encoding_format", "float") not in ("float", "base64"):
        raise bad_value("encoding_format", asked["encoding_format"], '"float" or "base64"')
    dimensions = asked.get("dimensions")
    return Wanted(
        tuple(_inputs(asked["input"], manifest)),
        None if dimensions is None else count("dimensions", dimensions, 1, _MOST_DIMENSIONS),
    )


def parts(inputs: tuple[Input, ...], *, context: int) -> Iterator[Part]:
    """The inputs in calls of a few each, in order."""
    first, held, tokens = 0, 0, 0
    for at, one in enumerate(inputs):
        more = _tokens(one, context)
        if held and (held == MOST_IN_A_CALL or tokens + more > context):
            yield Part(first, inputs[first:at], tokens)
            first, held, tokens = at, 0, 0
        held, tokens = held + 1, tokens + more
    yield Part(first, inputs[first:], tokens)


def engine_body(part: Part) -> dict[str, Any]:
    return {"input": list(part.inputs), "encoding_format": "float"}


def vectors(said: bytes, part: Part) -> Vectors:
    """What the engine answered, if each input has its vector of finite numbers.  Raises OriginError."""
    try:
        told = orjson.loads(said)
        data = sorted(told["data"], key=lambda one: one["index"])
        rows = [one["embedding"] for one in data]
        tokens = told["usage"]["prompt_tokens"]
        is_sound = (
            [one["index"] for one in data] == list(range(len(part.inputs)))
            and len({len(row) for row in rows}) == 1
            and all(_is_vector(row) for row in rows)
            and type(tokens) is int
        )
    except (orjson.JSONDecodeError, KeyError, TypeError, IndexError):
        is_sound = False
    if not is_sound:
        raise OriginError("the engine did not answer with one vector of finite numbers for each input")
    return Vectors(rows, tokens)


def check_dimensions(wanted: Wanted, rows: list[list[float]], *, model: str) -> None:
    """Raises Refused where a model's vectors are of another length than is wanted."""
    if wanted.dimensions is not None and wanted.dimensions != len(rows[0]):
        raise bad_value("dimensions", wanted.dimensions, f"{len(rows[0])} for model {model!r}, or nothing")


def answer(rows: list[list[float]], *, tokens: int, model: str) -> bytes:
    """As OpenAI tells it."""
    data = [{"object": "embedding", "index": at, "embedding": row} for at, row in enumerate(rows)]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return orjson.dumps({"object": "list", "data": data, "model": model, "usage": usage})


def refusal(error: Any, part: Part, manifest: Manifest) -> Refused | None:
    """What in the inputs the engine doesn't take, without its own words; None where it isn't the caller's fault."""
    error = error if isinstance(error, dict) else {}
    message = str(error.get("message", ""))
    found = _TOO_LONG.search(message)
    tokens = int(found[1]) if found else error.get("n_prompt_tokens")
    last = part.first + len(part.inputs) - 1
    place = f"input[{part.first}]" if last == part.first else f"one of input[{part.first}] to input[{last}]"
    if isinstance(tokens, int):
        return _too_long(place, tokens, manifest)
    if "invalid tokens" in message:
        return Refused(
            f"{place} has a token number that model {manifest.name!r} does not know", param="input", code="bad_value"
        )
    if error.get("code") == 400:
        return Refused(f"the engine of model {manifest.name!r} does not take {place}", param="input", code="bad_value")
    return None


def _inputs(value: Any, manifest: Manifest) -> list[Input]:
    form = f"a text, a list of 1 to {MOST_INPUTS} texts, a list of token numbers, or a list of such lists"
    if isinstance(value, str):
        return [_text("input", value, manifest)]
    if not isinstance(value, list) or not value:
        raise bad_value("input", value, form)
    if all(_is_token(one) for one in value):
        return [_tokens_of("input", value, manifest)]
    if len(value) > MOST_INPUTS:
        raise bad_value("input", value, form)
    if all(isinstance(one, str) for one in value):
        return [_text(f"input[{at}]", one, manifest) for at, one in enumerate(value)]
    for at, one in enumerate(value):
        if not isinstance(one, list) or not one or not all(_is_token(token) for token in one):
            raise bad_value(f"input[{at}]", one, "of the same kind as the others, texts or lists of token numbers")
    return [_tokens_of(f"input[{at}]", one, manifest) for at, one in enumerate(value)]


def _text(name: str, value: str, manifest: Manifest) -> str:
    if not value:
        raise bad_value(name, value, "a text that is not empty")
    if len(value) > manifest.context * fields.CHARACTERS_PER_TOKEN:
        raise Refused(
            f"`{name}` has {len(value):,} characters, which cannot fit the {manifest.context:,} tokens that model"
            f" {manifest.name!r} takes: send less text",
            param="input",
            code="context_length_exceeded",
        )
    return value


def _tokens_of(name: str, value: list[int], manifest: Manifest) -> list[int]:
    if len(value) > manifest.context:
        raise _too_long(f"`{name}`", len(value), manifest)
    return value


def _too_long(place: str, tokens: int, manifest: Manifest) -> Refused:
    return Refused(
        f"{place} has {tokens:,} tokens, and model {manifest.name!r} takes {manifest.context:,}: shorten it",
        param="input",
        code="context_length_exceeded",
    )


def _is_token(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST_TOKEN


def _tokens(one: Input, context: int) -> int:
    return len(one) if isinstance(one, list) else min(context, len(one) // _CHARACTERS_PER_TOKEN + 1)


def _is_vector(row: Any) -> bool:
    """Raises TypeError where something in it is no number."""
    return isinstance(row, list) and all(map(math.isfinite, row)) and any(row)
