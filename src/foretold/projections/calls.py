"""Fresh ids for the tool calls of a recorded answer (rule P3).

Clients put the ids of several answers into one conversation, where a provider refuses an id met twice.  The new id
follows from the recorded one and given randomness: the same inside one answer, another in the next.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from foretold.contract.events import DONE, Event, split
from foretold.projections import verbatim

SHORTEST_RANDOM_PART = 9
RANDOM_PART = 24

_BYTE_ORDER_MARK = "\ufeff".encode()
_NOT_KEPT = re.compile(rb"data[:\r\n]|[\r\n]")
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def fresh_id(recorded: str, randomness: bytes) -> str:
    """A new id of the old one's prefix and, where that leaves room enough for chance, its length."""
    prefix = recorded[: max(recorded.rfind("_"), recorded.rfind("-")) + 1]
    length = len(recorded) - len(prefix)
    if length < SHORTEST_RANDOM_PART:
        length = RANDOM_PART
    digits, block = "", 0
    while len(digits) < length:
        run = hashlib.sha256(b"%d\n" % block + randomness + b"\n" + recorded.encode()).digest()
        # 248 is the largest multiple of 62 in a byte: what lies above would favour some digits.
        digits += "".join(_DIGITS[b % 62] for b in run if b < 248)
        block += 1
    return prefix + digits[:length]


def has_calls(body: bytes) -> bool:
    """Whether a body may hold tool calls: cheap, and never wrongly no."""
    return b"tool_calls" in body or b"\\u00" in body


def whole_with_fresh_ids(whole: dict[str, Any], randomness: bytes) -> bool:
    """Gives the calls of a whole answer fresh ids in place; whether there were any."""
    return _freshen(whole, "message", randomness)


def transcript_with_fresh_ids(transcript: bytes, randomness: bytes) -> bytes:
    """The transcript with fresh ids; only events that name one are written anew, and only their data."""
    events, rest = split(transcript)
    return b"".join(_event_with_fresh_ids(event, randomness) for event in events) + rest


def _event_with_fresh_ids(event: Event, randomness: bytes) -> bytes:
    if event.data is None or event.data == DONE or not has_calls(event.raw):
        return event.raw
    chunk = verbatim.object_in(event.data)
    if chunk is None or not _freshen(chunk, "delta", randomness):
        return event.raw
    lines = event.raw.removeprefix(_BYTE_ORDER_MARK).splitlines(keepends=True)
    others = b"".join(line for line in lines if not _NOT_KEPT.match(line))
    return others + b"data: " + verbatim.written(chunk) + b"\n\n"


def _freshen(answer: dict[str, Any], holder: str, randomness: bytes) -> bool:
    found = False
    for choice in _objects_in(answer, "choices"):
        for call in _objects_in(choice.get(holder), "tool_calls"):
            if isinstance(call.get("id"), str) and call["id"]:
                call["id"] = fresh_id(call["id"], randomness)
                found = True
    return found


def _objects_in(value: Any, name: str) -> list[dict[str, Any]]:
    """The objects in an object's list; none where there is no such list."""
    items = value.get(name) if isinstance(value, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
