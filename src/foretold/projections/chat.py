"""Chat completions: transcript to whole and back (rule P3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from foretold.contract.events import Event
from foretold.projections import fold

_SPOKEN = ("reasoning_content", "reasoning", "content", "refusal")
_IN_ONE_PIECE = ("tool_calls", "function_call")


def whole_of(events: Iterable[Event]) -> dict[str, Any]:
    """The chat completion that a transcript tells; raises NotAnAnswer."""
    members, pieces = fold.fold_members(fold.chunks_of(events))
    choices = [_choice_of(index, parts) for index, parts in fold.by_index(pieces).items()]
    return fold.in_usual_order({**members, "object": "chat.completion", "choices": choices})


def transcript_of(whole: dict[str, Any], *, usage: bool) -> bytes:
    """The transcript of a chat completion that came whole; raises NotAnAnswer."""
    choices = enumerate(fold.objects(whole.get("choices"), "choices"))
    parts = (part for at, choice in choices for part in _parts_of(choice, choice.get("index", at)))
    return fold.transcript(whole, parts, kind="chat.completion.chunk", usage=usage)


def _choice_of(index: int, parts: list[dict[str, Any]]) -> dict[str, Any]:
    choice: dict[str, Any] = {"index": index, "message": {"role": None, "content": None}}
    for part in parts:
        delta = part.get("delta", {})
        if not isinstance(delta, dict):
            raise fold.NotAnAnswer("a delta is not an object")
        fold.merge(choice["message"], delta)
        fold.merge_beside(choice, {name: value for name, value in part.items() if name not in ("delta", "index")})
        if not isinstance(choice["message"], dict):
            raise fold.NotAnAnswer("a message is not an object")
    fold.grown(choice)
    message = choice["message"]
    if message["role"] in (None, ""):
        message["role"] = "assistant"
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        message["tool_calls"] = fold.without_positions(calls)
    choice.setdefault("finish_reason", None)
    return choice


def _parts_of(choice: dict[str, Any], index: int) -> Iterator[dict[str, Any]]:
    """Role first, then texts piece by piece, each call in one piece, then the finish with all the rest."""
    message = choice.get("message")
    if not isinstance(message, dict):
        raise fold.NotAnAnswer("a message is not an object")
    silent = {"logprobs": None} if "logprobs" in choice else {}

    def part(delta: dict[str, Any]) -> dict[str, Any]:
        return {"index": index, "delta": delta, **silent, "finish_reason": None}

    spoken = [name for name in _SPOKEN if isinstance(message.get(name), str)]
    said_at_once = {
        name: "" if name in spoken else value for name, value in message.items() if name not in _IN_ONE_PIECE
    }
    yield part(said_at_once)
    for name in spoken:
        for piece in fold.pieces(message[name]):
            yield part({name: piece})
    calls = message.get("tool_calls")
    for position, call in enumerate(fold.objects([] if calls is None else calls, "tool_calls")):
        yield part({"tool_calls": [{"index": position, **call}]})
    if message.get("function_call") is not None:
        yield part({"function_call": message["function_call"]})
    yield {"index": index, "delta": {}} | {n: v for n, v in choice.items() if n not in ("index", "message")}
