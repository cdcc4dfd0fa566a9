"""Is this a real answer, worth keeping?  (rules P1 and P2)

Every function returns None for yes, or one word that says why not; the word goes into `Cache-Status` detail.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from foretold.contract import float32

NEGATIVE_STATUSES = frozenset({400, 404, 413, 422})
NEGATIVE_S = 10

_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_ALWAYS_FINISHED = ("stop", "tool_calls", "function_call")


def has_limit(body: Any) -> bool:
    """Whether a request limits its own answer, so that `length` is what it asked for."""
    return isinstance(body, dict) and any(body.get(name) is not None for name in _LIMITS)


def why_not(operation: str, status: int, value: Any, *, limited: bool) -> str | None:
    """The verdict on a whole JSON answer, or on a transcript folded into one."""
    if status != 200:
        return "status"
    if isinstance(value, Mapping) and value.get("error") is not None:
        return "error"
    if operation == "embedding":
        items = value.get("data") if isinstance(value, Mapping) else None
        return why_not_vectors(items, len(items), 1) if isinstance(items, list) else "count"
    if operation not in ("chat", "completion"):
        return None
    choices = value.get("choices") if isinstance(value, Mapping) else None
    if not isinstance(choices, list) or not choices:
        return "no-choice"
    for choice in choices:
        reason = _why_not_choice(operation, choice, limited=limited)
        if reason is not None:
            return reason
    return None


def why_not_vectors(items: Iterable[Any], count: int, inputs: int) -> str | None:
    """The verdict on the `count` items that an answer to so many inputs has."""
    if count != inputs:
        return "count"
    places: set[float] = set()
    length = None
    for item in items:
        if not isinstance(item, Mapping):
            return "shape"
        index = item.get("index")
        if not isinstance(index, int | float) or isinstance(index, bool):
            return "index"
        if index not in range(inputs) or index in places:
            return "index"
        places.add(index)
        dimensions = float32.dimensions(item.get("embedding"))
        if dimensions is None:
            return "shape"
        if length not in (None, dimensions):
            return "lengths"
        length = dimensions
    return None


def is_negative(status: int, value: Any) -> bool:
    """Whether an error may be kept for a few seconds (P2): one of the caller's own making, in the dialect's shape."""
    return status in NEGATIVE_STATUSES and isinstance(value, Mapping) and isinstance(value.get("error"), (Mapping, str))


def _why_not_choice(operation: str, choice: Any, *, limited: bool) -> str | None:
    if not isinstance(choice, Mapping):
        return "no-choice"
    finish = choice.get("finish_reason")
    if finish == "length" and not limited:
        return "length"
    if finish != "length" and finish not in _ALWAYS_FINISHED:
        return f"finish-{finish}" if finish == "content_filter" else "finish"
    return _why_not_text(choice.get("text")) if operation == "completion" else _why_not_message(choice.get("message"))


def _why_not_text(text: Any) -> str | None:
    if not isinstance(text, str):
        return "shape"
    return None if text else "empty"


def _why_not_message(message: Any) -> str | None:
    if not isinstance(message, Mapping):
        return "shape"
    calls = message.get("tool_calls")
    if calls is not None and not (isinstance(calls, list) and all(isinstance(call, Mapping) for call in calls)):
        return "shape"
    said = (message.get(name) for name in ("content", "tool_calls", "function_call", "refusal", "audio"))
    return None if any(said) else "empty"
