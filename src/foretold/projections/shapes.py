"""One recorded answer in the shape that is asked for (rules P3 and P4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import orjson

from foretold.contract.events import DONE, Event, event_of, split
from foretold.projections import calls, chat, completion

EVENT_STREAM = "text/event-stream; charset=utf-8"
JSON = "application/json"

WHOLE_OF: dict[str, Callable[[Iterable[Event]], dict[str, Any]]] = {
    "chat": chat.whole_of,
    "completion": completion.whole_of,
}
TRANSCRIPT_OF: dict[str, Callable[..., bytes]] = {"chat": chat.transcript_of, "completion": completion.transcript_of}


def folded(operation: str, transcript: bytes) -> dict[str, Any]:
    """The whole answer that a transcript tells; raises NotAnAnswer or UnicodeDecodeError."""
    return WHOLE_OF[operation](split(transcript)[0])


def whole(operation: str, body: bytes, *, shape: str, randomness: bytes | None = None) -> bytes:
    """A record's body as one JSON document; with randomness, tool calls get fresh ids."""
    if shape == "events":
        answer = folded(operation, body)
        if randomness is not None:
            calls.whole_with_fresh_ids(answer, randomness)
        return orjson.dumps(answer)
    if randomness is not None and operation == "chat" and calls.has_calls(body):
        answer = orjson.loads(body)
        if calls.whole_with_fresh_ids(answer, randomness):
            return orjson.dumps(answer)
    return body


def events(operation: str, body: bytes, *, shape: str, usage: bool, randomness: bytes | None = None) -> bytes:
    """A record's body as a transcript, with the usage event only for those who asked for it."""
    if shape == "events":
        transcript = body if usage else without_usage(body)
    else:
        transcript = TRANSCRIPT_OF[operation](orjson.loads(body), usage=usage)
    if randomness is not None and operation == "chat" and calls.has_calls(transcript):
        return calls.transcript_with_fresh_ids(transcript, randomness)
    return transcript


def without_usage(transcript: bytes) -> bytes:
    """The transcript less the event that tells only usage."""
    if b'"usage"' not in transcript:
        return transcript
    found, rest = split(transcript)
    told = [event.raw for event in found if not tells_only_usage(event)]
    return transcript if len(told) == len(found) else b"".join(told) + rest


def tells_only_usage(event: Event | bytes) -> bool:
    """Whether an event is the one that `stream_options.include_usage` adds: no choices, and usage."""
    raw = event if isinstance(event, bytes) else event.raw
    if b'"usage"' not in raw:
        return False
    told = event_of(event).data if isinstance(event, bytes) else event.data
    if told is None or told == DONE:
        return False
    try:
        chunk = orjson.loads(told)
    except orjson.JSONDecodeError:
        return False
    return isinstance(chunk, dict) and chunk.get("choices") == [] and isinstance(chunk.get("usage"), dict)
