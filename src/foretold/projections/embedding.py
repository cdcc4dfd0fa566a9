"""Embeddings: the answer to several inputs as one for each, and back; in either form (rules P1, P3, P5).

A body is read no deeper than it must be: what isn't changed keeps its numbers' text, and of long lists of numbers
nothing is built but where they are judged or changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import orjson

from foretold.contract import float32
from foretold.contract.storable import why_not_vectors
from foretold.projections import verbatim
from foretold.projections.fold import NotAnAnswer

FORMS = ("float", "base64")
_SPACES = b" \t\r\n"
_LONGEST_REMEMBERED = 64


class Unsplit(NotAnAnswer):
    """`why` is the word of rule P1 for what is wrong with an answer."""

    def __init__(self, why: str):
        super().__init__(f"the answer can't be taken apart: {why}")
        self.why = why


class Piece(NamedTuple):
    """An answer to one input, as it stands in one to several.

    `runs` are its item's text, None where the index goes; the embedding's may be a part of the body it is of.  `top`
    are the answer's members in their own text, `data` and `usage` among them by name only.
    """

    runs: tuple[bytes | memoryview | None, ...]
    top: dict[str, bytes]
    usage: dict[str, Any] | None
    dimensions: int

    @property
    def own_bytes(self) -> int:
        """What it holds beside the body it is of."""
        runs = sum(len(run) for run in self.runs if isinstance(run, bytes))
        return runs + sum(len(name) + len(text) for name, text in self.top.items())


def asking(body: bytes, places: Sequence[int]) -> tuple[bytes, list[int]]:
    """The question that asks of these inputs of a list only, all else in its own text; and how long each of them is.

    A text is as long as its bytes, an array of tokens as its tokens.
    """
    members = _members(body)
    inputs = _items(members["input"])
    chosen = [inputs[place] for place in places]
    weights = [len(i.encode()) if isinstance(i, str) else len(i) for i in map(orjson.loads, chosen)]
    text = b"[" + b",".join(chosen) + b"]"
    return _object({name: text if name == "input" else told for name, told in members.items()}), weights


def split(body: bytes, weights: Sequence[int]) -> list[bytes]:
    """The answer to each input, in their order, whichever its own was.  Raises Unsplit.

    Usage is split by the inputs' weights.
    """
    try:
        top = _members(body)
        if top.get("error", b"null") != b"null":
            raise Unsplit("error")
        items = [_members(item) for item in _items(top.get("data", b"null"))]
        why = why_not_vectors(_judged(items), len(items), len(weights))
    except (msgspec.DecodeError, orjson.JSONDecodeError, RecursionError):
        raise Unsplit("shape") from None
    if why is not None:
        raise Unsplit(why)
    try:
        return _apart(top, items, weights)
    except NotAnAnswer:
        raise Unsplit("shape") from None


def in_form(body: bytes, form: str) -> bytes:
    """The answer with each embedding in a form; the same bytes if they are.  Raises NotAnAnswer if it is none."""
    try:
        top = _members(body)
        items = [_members(item) for item in _items(top["data"])]
        wrong = [item for item in items if (item["embedding"][:1] == b'"') != (form == "base64")]
        if not wrong:
            return body
        for item in wrong:
            item["embedding"] = _turned(item["embedding"])
        data = b"[" + b",".join(map(_item, items)) + b"]"
        return _object({name: data if name == "data" else _small(text) for name, text in top.items()})
    except (msgspec.DecodeError, orjson.JSONDecodeError, KeyError, TypeError, OverflowError, RecursionError):
        raise NotAnAnswer("the answer has no embeddings") from None


def piece_of(body: bytes, form: str) -> Piece:
    """An answer to one input, ready to stand among others.  Raises NotAnAnswer."""
    told = in_form(body, form)
    try:
        top = _members(told)
        (item,) = map(_members, _items(top["data"]))
        embedding, runs = _compact(item["embedding"]), list[bytes | memoryview | None]()
        for name, text in item.items():
            runs.append((b"," if runs else b"{") + _name(name) + b":")
            if name == "embedding":
                at = told.find(embedding)
                runs.append(embedding if at < 0 else memoryview(told)[at : at + len(embedding)])
            else:
                runs.append(None if name == "index" else _small(text))
        texts = {name: b"" if name in ("data", "usage") else _small(text) for name, text in top.items()}
        dimensions = float32.dimensions(orjson.loads(embedding))
        if dimensions is None:
            raise NotAnAnswer("the answer has no embedding")
        return Piece((*runs, b"}"), texts, _usage(top), dimensions)
    except (msgspec.DecodeError, orjson.JSONDecodeError, KeyError, TypeError, ValueError, RecursionError):
        raise NotAnAnswer("the answer has no embedding") from None


def joined(pieces: Sequence[Piece]) -> bytes:
    """The answer to all, in this order: the first's members, with the usage of all where each tells some.

    Pieces of two lengths are not of one model: raises NotAnAnswer.
    """
    if len({piece.dimensions for piece in pieces}) > 1:
        raise NotAnAnswer("the embeddings are of several lengths")
    usages = [piece.usage for piece in pieces if piece.usage is not None]
    runs: list[bytes | memoryview] = []
    for name, text in pieces[0].top.items():
        if name == "usage" and len(usages) < len(pieces):
            continue
        runs.append((b"," if runs else b"{") + _name(name) + b":")
        if name == "data":
            runs.append(b"[")
            for index, piece in enumerate(pieces):
                place = b"%d" % index
                runs += [place if run is None else run for run in piece.runs]
                runs.append(b",")
            runs[-1] = b"]"
        else:
            runs.append(verbatim.written(added(usages)) if name == "usage" else text)
    runs.append(b"}")
    return b"".join(runs)


def shares(usage: dict[str, Any] | None, weights: Sequence[int]) -> list[dict[str, Any]] | None:
    """The usage of each input: whole numbers split by weight, by the largest remainder, the first of equals.

    So are those in objects; what is neither is told of the whole alone.
    """
    if usage is None:
        return None
    each: list[dict[str, Any]] = [{} for _ in weights]
    for name, value in usage.items():
        if isinstance(value, dict):
            told: Sequence[Any] = shares(value, weights) or ()
        elif type(value) is int and value >= 0:
            told = _shared(value, weights)
        else:
            continue
        for own, share in zip(each, told, strict=True):
            own[name] = share
    return each


def added(usages: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The usage of several together: whole numbers added, also in objects; what is neither is only one answer's."""
    if len(usages) == 1:
        return usages[0]
    names = dict.fromkeys(name for usage in usages for name in usage)
    sums: dict[str, Any] = {}
    for name in names:
        values = [usage[name] for usage in usages if name in usage]
        if all(isinstance(value, dict) for value in values):
            sums[name] = added(values) if len(values) > 1 else added([*values, {}])
        elif all(type(value) is int for value in values):
            sums[name] = sum(values)
    return sums


def _apart(top: dict[str, bytes], items: Sequence[dict[str, bytes]], weights: Sequence[int]) -> list[bytes]:
    members = {name: _small(text) for name, text in top.items() if name != "data"}
    usages = shares(_usage(top), weights)
    told: list[bytes] = [b""] * len(items)
    for item in items:
        place = int(float(item["index"]))
        own = members if usages is None else {**members, "usage": verbatim.written(usages[place])}
        data = b"[" + _item({**item, "index": b"0"}) + b"]"
        told[place] = _object({name: data if name == "data" else own[name] for name in top})
    return told


def _shared(total: int, weights: Sequence[int]) -> list[int]:
    together = sum(weights)
    told = [total * weight // together for weight in weights]
    remainders = [total * weight % together for weight in weights]
    for place in sorted(range(len(weights)), key=lambda place: -remainders[place])[: total - sum(told)]:
        told[place] += 1
    return told


def _judged(items: Sequence[dict[str, bytes]]) -> Iterator[dict[str, Any]]:
    for item in items:
        yield {name: orjson.loads(item[name]) for name in ("index", "embedding") if name in item}


def _turned(text: bytes) -> bytes:
    """An embedding in the other form.  Raises TypeError if it is none."""
    embedding = orjson.loads(text)
    if isinstance(embedding, list):
        if float32.dimensions(embedding) is None:
            raise TypeError("no list of floats")
        return verbatim.written(float32.as_base64(float32.of_numbers(embedding)))
    floats = float32.of_base64(embedding)
    if floats is None:
        raise TypeError("no base64 of floats")
    return float32.as_numbers(floats)


def _usage(top: dict[str, bytes]) -> dict[str, Any] | None:
    text = top.get("usage", b"null")
    return verbatim.object_in(text) if text[:1] == b"{" else None


def _members(text: bytes) -> dict[str, bytes]:
    return {name: bytes(raw) for name, raw in _OBJECT.decode(text).items()}


def _items(text: bytes) -> list[bytes]:
    return [bytes(raw) for raw in _LIST.decode(text)]


def _object(members: dict[str, bytes]) -> bytes:
    return b"{" + b",".join(_name(name) + b":" + text for name, text in members.items()) + b"}"


def _item(item: dict[str, bytes]) -> bytes:
    return _object({name: _compact(text) if name == "embedding" else _small(text) for name, text in item.items()})


def _compact(embedding: bytes) -> bytes:
    """A list of numbers, or a text, written anew: each number keeps its text."""
    if embedding[:1] == b"[":
        return embedding.translate(None, _SPACES)
    return orjson.dumps(orjson.loads(embedding)) if b"\\" in embedding else embedding


def _name(name: str) -> bytes:
    return orjson.dumps(name)


def _small(text: bytes) -> bytes:
    """Any other value written anew.  Raises NotAnAnswer."""
    return _remembered(text) if len(text) <= _LONGEST_REMEMBERED else _written(text)


def _written(text: bytes) -> bytes:
    told = verbatim.object_in(b'{"":' + text + b"}")
    if told is None:
        raise NotAnAnswer("the answer can't be read")
    return verbatim.written(told[""])


_remembered = lru_cache(maxsize=1024)(_written)
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST = msgspec.json.Decoder(list[msgspec.Raw])
