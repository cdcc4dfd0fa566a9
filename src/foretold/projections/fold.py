"""Many chunks into one answer, one answer into many chunks: what chat and text completions share.

Unknown members survive both ways.  Merging follows what clients do with deltas: texts are joined, lists with an
`index` merge by it, other lists grow, objects merge, the rest is replaced.  What grows is collected in pieces and made
one at the end (`grown`), so that folding costs no more than what came.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from foretold.contract.events import DONE, Event
from foretold.projections import verbatim

PIECE_CODE_POINTS = 64

_SAID_ONCE = frozenset({"role", "id", "type", "index"})
_ON_EVERY_CHUNK = ("id", "created", "model", "system_fingerprint", "service_tier")
_WORD = re.compile(r"[^ \t\n\r]*[ \t\n\r]+|[^ \t\n\r]+")


class NotAnAnswer(ValueError):
    """What is no answer, whole or told in events, and so has no other shape."""


def chunks_of(events: Iterable[Event]) -> Iterator[dict[str, Any]]:
    """The JSON objects of a transcript's data events, `[DONE]` left out; raises NotAnAnswer."""
    for event in events:
        if event.data is None or event.data == DONE:
            continue
        chunk = verbatim.object_in(event.data)
        if chunk is None:
            raise NotAnAnswer("an event is not a JSON object")
        yield chunk


def fold_members(chunks: Iterable[dict[str, Any]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The members of the answer beside its choices, and all choices of all chunks in order."""
    members: dict[str, Any] = {}
    choices: list[dict[str, Any]] = []
    for chunk in chunks:
        for name, value in chunk.items():
            if name == "choices":
                choices.extend(objects(value, "choices"))
            elif name in _ON_EVERY_CHUNK:
                if members.get(name) is None:
                    members[name] = value
            elif value is not None or (name not in members and name != "usage"):
                members[name] = value
    return members, choices


def objects(value: Any, what: str) -> list[dict[str, Any]]:
    """The value itself; raises NotAnAnswer if it is no list of objects."""
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise NotAnAnswer(f"{what} is not a list of objects")
    return value


def in_usual_order(whole: dict[str, Any]) -> dict[str, Any]:
    """The same answer with its members where readers look for them."""
    first = [name for name in ("id", "object", "created", "model", "choices", "usage") if name in whole]
    return {name: whole[name] for name in (*first, *(name for name in whole if name not in first))}


def by_index(choices: Iterable[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    """The pieces of each choice, lowest index first."""
    found: dict[int, list[dict[str, Any]]] = {}
    for choice in choices:
        index = choice.get("index", 0)
        if type(index) is not int:
            raise NotAnAnswer("a choice's index is not a whole number")
        found.setdefault(index, []).append(choice)
    return dict(sorted(found.items()))


class Text:
    """A text that grows: its pieces, joined when asked for."""

    __slots__ = ("_pieces", "length")

    def __init__(self, *pieces: str):
        self._pieces = list(pieces)
        self.length = sum(map(len, pieces))

    def add(self, piece: str) -> None:
        self._pieces.append(piece)
        self.length += len(piece)

    def __str__(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0]


class Items(list[Any]):
    """A list that grows; `places` are its first items that tell each place."""

    __slots__ = ("places",)

    def __init__(self, items: Iterable[Any] = ()):
        super().__init__()
        self.places: dict[int, dict[str, Any]] = {}
        for item in items:
            self.append(item)

    def append(self, item: Any) -> None:
        position = _position(item)
        if position is not None:
            self.places.setdefault(position, item)
        super().append(item)


def merge(into: dict[str, Any], delta: dict[str, Any]) -> None:
    """Adds a delta to what has come; `grown` makes plain values of that in the end."""
    for name, value in delta.items():
        held = into.get(name)
        if held is None:
            into[name] = _opened(value)
        elif value is None or (name in _SAID_ONCE and held != ""):
            continue
        elif isinstance(held, (str, Text)) and isinstance(value, str):
            into[name] = _longer(name, held, value)
        elif isinstance(held, list) and isinstance(value, list):
            into[name] = held if isinstance(held, Items) else Items(held)
            _grow(into[name], value)
        elif isinstance(held, dict) and isinstance(value, dict):
            merge(held, value)
        else:
            into[name] = value


def merge_beside(into: dict[str, Any], members: dict[str, Any]) -> None:
    """Adds what stands beside the delta: as `merge`, but a text said again replaces the first."""
    for name, value in members.items():
        if isinstance(value, str) and isinstance(into.get(name), (str, Text)):
            into[name] = value
        else:
            merge(into, {name: value})


def grown(value: Any) -> Any:
    """What was merged, as plain JSON values; what came as it is may be changed."""
    if isinstance(value, Text):
        return str(value)
    if isinstance(value, dict):
        for name, inner in value.items():
            if isinstance(inner, (Text, dict, list)):
                value[name] = grown(inner)
        return value
    if isinstance(value, list):
        return [grown(item) for item in value]
    return value


def without_positions(items: list[Any]) -> list[Any]:
    """Tool calls as a whole answer has them: in the order of their index, without it."""
    ordered = sorted(items, key=lambda item: _position(item) or 0)
    return [{k: v for k, v in i.items() if k != "index"} if isinstance(i, dict) else i for i in ordered]


def pieces(text: str) -> list[str]:
    """A text cut after runs of white space, and every 64 code points."""
    return [
        word[at : at + PIECE_CODE_POINTS]
        for word in _WORD.findall(text)
        for at in range(0, len(word), PIECE_CODE_POINTS)
    ]


def transcript(whole: dict[str, Any], choices: Iterable[dict[str, Any]], *, kind: str, usage: bool) -> bytes:
    """The events of an answer: its choices' pieces, then usage if asked, then `[DONE]`.

    Members that every chunk carries go on all, the others on the first, which an answer without choices has too.
    """
    common = {"id": whole.get("id"), "object": kind} | {n: whole[n] for n in _ON_EVERY_CHUNK if n in whole}
    once = {n: v for n, v in whole.items() if n not in common and n not in ("choices", "usage")}
    events = []
    for choice in choices:
        events.append({**common, **once, "choices": [choice]})
        once = {}
    if not events:
        events.append({**common, **once, "choices": []})
    if usage and whole.get("usage") is not None:
        events.append({**common, "choices": [], "usage": whole["usage"]})
    return b"".join(b"data: " + verbatim.written(event) + b"\n\n" for event in events) + b"data: [DONE]\n\n"


def _opened(value: Any) -> Any:
    """A value that may be added to without changing the chunk it came from."""
    if isinstance(value, dict):
        opened: dict[str, Any] = {}
        merge(opened, value)
        return opened
    if isinstance(value, list):
        items = Items()
        _grow(items, value)
        return items
    return value


def _longer(name: str, held: str | Text, more: str) -> str | Text:
    length = len(held) if isinstance(held, str) else held.length
    if not more or (name == "name" and length == len(more) and str(held) == more):
        return held
    if not length:
        return more
    if isinstance(held, str):
        return Text(held, more)
    held.add(more)
    return held


def _grow(held: Items, more: list[Any]) -> None:
    for item in more:
        position = _position(item)
        same = None if position is None else held.places.get(position)
        if same is None:
            held.append(_opened(item))
        else:
            merge(same, item)


def _position(item: Any) -> int | None:
    """Where an item stands among its like; None if it doesn't tell by a whole number."""
    index = item.get("index") if isinstance(item, dict) else None
    return index if type(index) is int else None
