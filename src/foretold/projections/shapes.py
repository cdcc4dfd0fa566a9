"""One recorded answer in the shape that is asked for (rules P3 and P4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple, Protocol

from foretold.contract.events import DONE, Event, event_of, split
from foretold.projections import calls, chat, completion, embedding, verbatim, workers_ai
from foretold.projections.fold import NotAnAnswer

EVENT_STREAM = "text/event-stream; charset=utf-8"
JSON = "application/json"

WHOLE_OF: dict[str, Callable[[Iterable[Event]], dict[str, Any]]] = {
    "chat": chat.whole_of,
    "completion": completion.whole_of,
}
TRANSCRIPT_OF: dict[str, Callable[..., bytes]] = {"chat": chat.transcript_of, "completion": completion.transcript_of}


class Retelling(Protocol):
    def told(self, raw: bytes) -> bytes:
        """What a whole event becomes, as it comes.  Raises NotAnAnswer or UnicodeDecodeError."""
        ...


class Retold(NamedTuple):
    """A chat completion in the shapes of another dialect.  `whole` and `transcript` raise NotAnAnswer."""

    begin: Callable[[], Retelling]
    whole: Callable[[bytes], bytes]
    transcript: Callable[[bytes], bytes]
    refused: Callable[[int, bytes], bytes]
    broken: Callable[[str], bytes]


# By the name that a query tells (`Asked.projection`).
RETOLD = {
    "workers-ai": Retold(
        workers_ai.Retelling, workers_ai.whole, workers_ai.transcript, workers_ai.refused, workers_ai.broken
    )
}


# The forms of an answer whose shape stays, by the names that a query tells.  Each gives the body it got if that is in
# its form, and raises NotAnAnswer if it can have none.
FORM: dict[str, Callable[[bytes], bytes]] = {form: partial(embedding.in_form, form=form) for form in embedding.FORMS}
# How a whole answer of an operation is kept, where that is not as it came.
SHAPE_OF = {"embedding": "vector"}


def retold(projection: str | None, body: bytes, *, shape: str) -> bytes:
    """A chat completion in one shape, told as a query wants it.  Raises NotAnAnswer."""
    if projection is None:
        return body
    return RETOLD[projection].transcript(body) if shape == "events" else RETOLD[projection].whole(body)


def folded(operation: str, transcript: bytes) -> dict[str, Any]:
    """The whole answer that a transcript tells; raises NotAnAnswer or UnicodeDecodeError."""
    return WHOLE_OF[operation](split(transcript)[0])


def whole(operation: str, body: bytes, *, shape: str, randomness: bytes | None = None) -> bytes:
    """A record's body as one JSON document; with randomness, tool calls get fresh ids.

    Raises as `folded` does for a transcript; a whole body that can't be read is given as it is.
    """
    if shape == "events":
        answer = folded(operation, body)
        if randomness is not None:
            calls.whole_with_fresh_ids(answer, randomness)
        return verbatim.written(answer)
    if randomness is not None and operation == "chat" and calls.has_calls(body):
        told = verbatim.object_in(body)
        if told is not None and calls.whole_with_fresh_ids(told, randomness):
            return verbatim.written(told)
    return body


def events(operation: str, body: bytes, *, shape: str, usage: bool, randomness: bytes | None = None) -> bytes:
    """A record's body as a transcript, with the usage event only for those who asked for it.

    Raises NotAnAnswer, or UnicodeDecodeError for a transcript that isn't UTF-8.
    """
    if shape == "events":
        transcript = body if usage else without_usage(body)
    else:
        transcript = _unfolded(operation, body, usage=usage)
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
    try:
        told = event_of(event).data if isinstance(event, bytes) else event.data
    except UnicodeDecodeError:
        return False
    chunk = None if told is None or told == DONE else verbatim.object_in(told)
    return chunk is not None and chunk.get("choices") == [] and isinstance(chunk.get("usage"), dict)


def _unfolded(operation: str, body: bytes, *, usage: bool) -> bytes:
    answer = verbatim.object_in(body)
    if answer is None:
        raise NotAnAnswer("the answer is not a JSON object")
    return TRANSCRIPT_OF[operation](answer, usage=usage)
