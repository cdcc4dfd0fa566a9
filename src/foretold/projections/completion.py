"""Text completions: transcript to whole and back (rule P3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from foretold.contract.events import Event
from foretold.projections import fold


def whole_of(events: Iterable[Event]) -> dict[str, Any]:
    """The text completion that a transcript tells; raises NotAnAnswer."""
    members, pieces = fold.fold_members(fold.chunks_of(events))
    choices = [_choice_of(index, parts) for index, parts in fold.by_index(pieces).items()]
    return fold.in_usual_order({**members, "object": "text_completion", "choices": choices})


def transcript_of(whole: dict[str, Any], *, usage: bool) -> bytes:
    """The transcript of a text completion that came whole; raises NotAnAnswer."""
    choices = enumerate(fold.objects(whole.get("choices"), "choices"))
    parts = (part for at, choice in choices for part in _parts_of(choice, choice.get("index", at)))
    return fold.transcript(whole, parts, kind="text_completion", usage=usage)


def _choice_of(index: int, parts: list[dict[str, Any]]) -> dict[str, Any]:
    choice: dict[str, Any] = {"text": ""}
    for part in parts:
        fold.merge(choice, {"text": part.get("text")})
        fold.merge_beside(choice, {name: value for name, value in part.items() if name not in ("text", "index")})
    fold.grown(choice)
    choice.setdefault("finish_reason", None)
    return {"index": index, **choice}


def _parts_of(choice: dict[str, Any], index: int) -> Iterator[dict[str, Any]]:
    text = choice.get("text")
    if not isinstance(text, str):
        raise fold.NotAnAnswer("a choice's text is not a text")
    silent = {"logprobs": None} if "logprobs" in choice else {}
    for piece in fold.pieces(text):
        yield {"index": index, "text": piece, **silent, "finish_reason": None}
    yield {**choice, "index": index, "text": ""}
