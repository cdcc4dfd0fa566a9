"""What the end of a usual transcript tells, at a tenth of the cost of folding it.

Whether an answer may be kept hangs on a few members; most transcripts have no others that matter.  Whatever is the
least bit unusual (a tool call, an error, a member of another kind) is left to the fold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec
import orjson

from foretold.contract.events import DONE


class _Delta(msgspec.Struct, forbid_unknown_fields=True):
    role: str | None = None
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    refusal: None = None
    tool_calls: None = None
    function_call: None = None
    audio: None = None


class _ChatChoice(msgspec.Struct):
    delta: _Delta = msgspec.field(default_factory=_Delta)
    index: Any = 0
    finish_reason: str | None = None
    message: None = None


class _TextChoice(msgspec.Struct):
    text: str
    index: Any = 0
    finish_reason: str | None = None


class _ChatChunk(msgspec.Struct):
    choices: list[_ChatChoice] = []
    usage: dict[str, Any] | None = None
    error: None = None


class _TextChunk(msgspec.Struct):
    choices: list[_TextChoice] = []
    usage: dict[str, Any] | None = None
    error: None = None


_DONE = b"data: " + DONE.encode()
# A longer event, or one of more brackets, is unusual.
_LONGEST = 16 * 1024
_MOST_BRACKETS = 32
_MINUS_ZERO = re.compile(rb"-0[ \t\r\n]*[,}\]]")

C = TypeVar("C", _ChatChunk, _TextChunk)


def of_chat(transcript: bytes) -> dict[str, Any] | None:
    """A chat completion that rule P1 judges as it would the one that is told, with the same usage.

    None for a transcript that is to be folded, also for one without a clean end.
    """
    finish: dict[int, str | None] = {}
    content: dict[int, str] = {}
    usage = None
    try:
        for chunk in _chunks(transcript, _ChatChunk):
            usage = usage if chunk.usage is None else chunk.usage
            for choice in chunk.choices:
                at = _place(choice.index)
                finish[at] = finish.get(at) if choice.finish_reason is None else choice.finish_reason
                if choice.delta.content:
                    content[at] = choice.delta.content
    except _Unusual:
        return None
    choices = [{"message": {"content": content.get(at)}, "finish_reason": finish[at]} for at in sorted(finish)]
    return {"choices": choices, "usage": usage}


def of_completion(transcript: bytes) -> dict[str, Any] | None:
    """The same for a text completion."""
    finish: dict[int, str | None] = {}
    text: dict[int, str] = {}
    usage = None
    try:
        for chunk in _chunks(transcript, _TextChunk):
            usage = usage if chunk.usage is None else chunk.usage
            for choice in chunk.choices:
                at = _place(choice.index)
                finish[at] = finish.get(at) if choice.finish_reason is None else choice.finish_reason
                text[at] = text.get(at) or choice.text
    except _Unusual:
        return None
    return {"choices": [{"text": text[at], "finish_reason": finish[at]} for at in sorted(finish)], "usage": usage}


class _Unusual(Exception):
    pass


def _place(index: Any) -> int:
    # Declared as anything, since a float that is whole would be taken for an int.
    if type(index) is not int or not 0 <= index < 10**14:
        raise _Unusual
    return index


def _chunks(transcript: bytes, kind: type[C]) -> Iterator[C]:
    """The events of a transcript whose every event is one line of data, the last `[DONE]`."""
    *events, done, rest = transcript.split(b"\n\n") if transcript.count(b"\n\n") > 1 else (b"", b"", b"-")
    if done != _DONE or rest or b"\r" in transcript:
        raise _Unusual
    for event in events:
        if not event.startswith(b"data: ") or b"\n" in event or event == _DONE:
            raise _Unusual
        if len(event) > _LONGEST or event.count(b"{") + event.count(b"[") > _MOST_BRACKETS:
            raise _Unusual
        if b"-0" in event and _MINUS_ZERO.search(event):
            raise _Unusual  # a number whose text counts, and no index
        try:
            yield msgspec.convert(orjson.loads(event[6:]), kind)
        except (orjson.JSONDecodeError, msgspec.ValidationError):
            raise _Unusual from None


OF = {"chat": of_chat, "completion": of_completion}
