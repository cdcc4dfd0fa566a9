"""This side keeps every vector of contract/vectors/."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from foretold.contract.canonical import Unkeyable
from foretold.errors import ForetoldError, Refused
from foretold.projections.fold import NotAnAnswer
from tests.contract import answer_operations, key_operations, projection_operations
from tests.contract.values import STATUSES, bytes_of, is_same

CONTRACT = Path(__file__).parents[2] / "contract"
OPERATIONS = {**key_operations.OPERATIONS, **answer_operations.OPERATIONS, **projection_operations.OPERATIONS}
LEAST_VECTORS = 300


def _vectors() -> list[dict[str, Any]]:
    files = sorted((CONTRACT / "vectors").glob("*.json"))
    return [vector for file in files for vector in json.loads(file.read_text("utf-8"))]


ALL = _vectors()
ran: set[str] = set()


def _error_of(error: ForetoldError | Unkeyable | ValueError) -> str:
    match error:
        case Unkeyable():
            return error.why
        case Refused():
            assert error.status_here == STATUSES[error.code_here]
            return error.code_here
        case ForetoldError():
            return error.code
        case NotAnAnswer():
            return "not_an_answer"
        case UnicodeDecodeError():
            return "not_utf8"
        case _:
            return "unpackable"


def _outcome(vector: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"out": OPERATIONS[vector["op"]](vector["in"])}
    except (ForetoldError, Unkeyable, ValueError) as error:
        return {"error": _error_of(error)}


def _wanted(vector: dict[str, Any], outcome: dict[str, Any]) -> dict[str, Any]:
    if "error" in vector:
        return {"error": vector["error"]}
    is_bytes = isinstance(outcome.get("out"), bytes)
    return {"out": bytes_of(vector["out"]) if is_bytes else vector["out"]}


@pytest.mark.parametrize("vector", ALL, ids=[vector["name"] for vector in ALL])
def test_vector(vector):
    ran.add(vector["name"])
    assert vector["op"] in OPERATIONS

    outcome = _outcome(vector)

    wanted = _wanted(vector, outcome)
    assert is_same(outcome, wanted), f"{vector['rule']}: {outcome!r} is not {wanted!r}"


def test_every_vector_ran(request):
    if request.config.getoption("keyword") or len(request.session.items) < len(ALL):
        pytest.skip("only some of the vectors were asked for")

    assert ran == {vector["name"] for vector in ALL}
    assert len(ran) == len(ALL)


def test_there_are_enough_vectors():
    assert len(ALL) >= LEAST_VECTORS


def test_every_operation_has_a_vector():
    assert set(OPERATIONS) == {vector["op"] for vector in ALL}


def test_the_vectors_on_disk_are_those_of_the_tables():
    run = subprocess.run([sys.executable, CONTRACT / "generate.py", "--check"], capture_output=True, text=True)

    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("seed", ["0", "4711"])
def test_keys_are_equal_in_every_process(seed):
    """The seed of Python's own hashes must not show."""
    vector = next(v for v in ALL if v["op"] == "key_of")
    code = "import json, sys; from tests.contract.key_operations import OPERATIONS as o; "
    code += "print(o['key_of'](json.load(sys.stdin)))"

    run = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(vector["in"]),
        env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        cwd=CONTRACT.parent,
    )

    assert run.stdout.strip() == vector["out"], run.stderr
