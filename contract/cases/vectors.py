"""Embeddings: which answers are kept, and their two forms (rules P1 and P3)."""

import base64
import struct
from typing import Any

from cases.writing import Vector, gives


def _base64(*floats: float) -> str:
    return base64.b64encode(struct.pack(f"<{len(floats)}f", *floats)).decode()


def _item(embedding: Any, index: Any = 0) -> dict[str, Any]:
    return {"object": "embedding", "index": index, "embedding": embedding}


def _alone(name: str, answer: Any, out: str | None) -> Vector:
    given = {"operation": "embedding", "status": 200, "answer": answer, "limited": False}
    return gives(name, "P1", "why_not", given, out)


def _several(name: str, inputs: int, items: list[Any], out: str | None) -> Vector:
    return gives(name, "P1", "why_not_vectors", {"items": items, "inputs": inputs}, out)


def _vector(name: str, embedding: Any, out: str | None) -> Vector:
    return _alone(name, {"object": "list", "data": [_item(embedding)]}, out)


_KEPT = [
    _vector("a list of numbers is a vector", [0.5, -1, 0], None),
    _vector("base64 of floats is a vector", _base64(0.5, -1), None),
    _vector("the largest float32 is one", [3.4028234663852886e38, -3.4028234663852886e38], None),
    _vector("a number that is rounded to no float32 is none", [3.4028235677973366e38], "shape"),
    _vector("an empty list is no vector", [], "shape"),
    _vector("an empty text is no vector", "", "shape"),
    _vector("base64 of three bytes is no vector", "AAAA", "shape"),
    _vector("what is no base64 is no vector", "AAAAAA=", "shape"),
    _vector("base64 of another alphabet is no vector", "AA_AAA==", "shape"),
    _vector("infinity in base64 is no vector", _base64(0.5, float("inf")), "shape"),
    _vector("no number in base64 is no vector", _base64(float("nan")), "shape"),
    _vector("a list with a text is no vector", [0.5, "1"], "shape"),
    _vector("a list with true is no vector", [0.5, True], "shape"),
    _vector("null is no vector", None, "shape"),
    _alone("an answer without data is not kept", {"object": "list"}, "count"),
    _alone("an answer with no embedding is not kept", {"data": []}, "count"),
    _alone("an answer to one input has one embedding", {"data": [_item([1]), _item([1], 1)]}, "count"),
    _alone("the only embedding has the index 0", {"data": [_item([1], 1)]}, "index"),
    _alone("an embedding's error is no answer", {"error": {"message": "no"}, "data": [_item([1])]}, "error"),
    _several("indexes may stand in any order", 3, [_item([1], 2), _item([1], 0), _item([1], 1)], None),
    _several("every input has an embedding", 3, [_item([1]), _item([1], 1)], "count"),
    _several("no index is told twice", 2, [_item([1]), _item([1])], "index"),
    _several("no index lies beyond the inputs", 2, [_item([1]), _item([1], 2)], "index"),
    _several("no index lies before the inputs", 2, [_item([1]), _item([1], -1)], "index"),
    _several("an index that is no number is none", 1, [_item([1], "0")], "index"),
    _several("an embedding without an index is of no input", 1, [{"embedding": [1]}], "index"),
    _several("all vectors are of one length", 2, [_item([1, 2]), _item([1], 1)], "lengths"),
    _several("a list and base64 are of one length", 2, [_item([1, 2]), _item(_base64(1, 2), 1)], None),
    _several("an item that is no object is no embedding", 1, [[1]], "shape"),
]


def _turned(name: str, embedding: Any, out: Any) -> Vector:
    return gives(name, "P3", "other_form", {"embedding": embedding}, out)


_FORMS = [
    _turned("numbers are the nearest float32, little-endian", [1, 0.1, -2.5], _base64(1, 0.1, -2.5)),
    _turned("a number too small for a float32 is 0", [1e-60, -1e-60], "AAAAAAAAAIA="),
    _turned("floats are told with the fewest digits", _base64(0.1, 0.2, -0.0123), "[0.1,0.2,-0.0123]"),
    _turned("a float that needs nine digits has nine", _base64(16777216.0, 1.00000012), "[16777216,1.0000001]"),
    _turned("small floats are told as ECMAScript tells them", _base64(1e-5, 1.5e-6, 1e-7), "[0.00001,0.0000015,1e-7]"),
    _turned(
        "large floats are told as ECMAScript tells them",
        _base64(1e16, 1e20, 1e21),
        "[10000000000000000,100000000000000000000,1e+21]",
    ),
    _turned("-0 keeps its sign", _base64(-0.0, 0.0), "[-0.0,0]"),
    _turned("the smallest float has one digit", _base64(2.0**-149), "[1e-45]"),
    _turned("the largest float has its digits", _base64(3.4028234663852886e38), "[3.4028235e+38]"),
    _turned("what is no vector has no other form", [True], None),
]

FILES = {"vectors": _KEPT, "vector-forms": _FORMS}
