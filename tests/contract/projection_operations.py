"""What the operations of vectors about projections do here."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from foretold.contract.events import DONE, Event, split
from foretold.projections import calls, fold, predict, shapes, verbatim
from tests.contract.values import bytes_of

Given = dict[str, Any]


def transcript_of(given: Given) -> list[Any]:
    """What each event of the transcript tells."""
    transcript = shapes.TRANSCRIPT_OF[given["operation"]](given["whole"], usage=given["usage"])
    found, rest = split(transcript)
    assert rest == b""
    return [told(event) for event in found]


def told(event: Event) -> Any:
    assert event.data is not None
    assert event.raw == f"data: {event.data}\n\n".encode()
    return DONE if event.data == DONE else json.loads(event.data)


def whole_with_fresh_ids(given: Given) -> Any:
    whole = copy.deepcopy(given["whole"])
    has_changed = calls.whole_with_fresh_ids(whole, bytes_of(given["randomness"]))
    assert has_changed == (whole != given["whole"])
    return whole


def whole(given: Given) -> bytes:
    return shapes.whole(
        given["operation"], bytes_of(given["body"]), shape=given["shape"], randomness=randomness_of(given)
    )


def events(given: Given) -> bytes:
    return shapes.events(
        given["operation"],
        bytes_of(given["body"]),
        shape=given["shape"],
        usage=given["usage"],
        randomness=randomness_of(given),
    )


def randomness_of(given: Given) -> bytes | None:
    return bytes_of(given["randomness"]) if "randomness" in given else None


OPERATIONS: dict[str, Callable[[Given], Any]] = {
    "whole_of": lambda g: shapes.folded(g["operation"], bytes_of(g["transcript"])),
    "transcript_of": transcript_of,
    "pieces": lambda g: fold.pieces(g["text"]),
    "fresh_id": lambda g: calls.fresh_id(g["recorded"], bytes_of(g["randomness"])),
    "whole_with_fresh_ids": whole_with_fresh_ids,
    "transcript_with_fresh_ids": lambda g: calls.transcript_with_fresh_ids(
        bytes_of(g["transcript"]), bytes_of(g["randomness"])
    ),
    "whole": whole,
    "events": events,
    "without_usage": lambda g: shapes.without_usage(bytes_of(g["transcript"])),
    "tells_only_usage": lambda g: shapes.tells_only_usage(bytes_of(g["event"])),
    "question_of": lambda g: verbatim.written(predict.question_of(bytes_of(g["body"]))),
    "answer_of": lambda g: predict.answer_of(g["chat"]),
}
