"""Server-sent events: a transcript and its parts (WHATWG HTML section 9.2.6).

A transcript is never re-framed: every event keeps its own bytes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

DONE = "[DONE]"
LONGEST_EVENT_BYTES = 8 * 2**20

# Atomic groups: a CR LF must not be read as two ends of line.
_BLANK = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_LINE = re.compile(r"\r\n|\n|\r")


class Event(NamedTuple):
    """`raw` are its bytes with the blank line that ends it; `data` its data lines joined, None if it has none."""

    raw: bytes
    data: str | None
    name: str = ""


def split(transcript: bytes) -> tuple[list[Event], bytes]:
    """The whole events of a transcript, and what follows the last of them.

    Raises UnicodeDecodeError if an event isn't UTF-8.
    """
    if b"\r" not in transcript:
        *whole, rest = transcript.split(b"\n\n")
        return [event_of(raw + b"\n\n") for raw in whole], rest
    events, at = [], 0
    for blank in _BLANK.finditer(transcript):
        events.append(event_of(transcript[at : blank.end()]))
        at = blank.end()
    return events, transcript[at:]


def event_of(raw: bytes) -> Event:
    if raw.startswith(b"data: ") and raw.count(b"\n") == 2 and raw.endswith(b"\n\n") and b"\r" not in raw:
        return Event(raw, raw[6:-2].decode("utf-8"))
    data: list[str] = []
    name = ""
    for line in _LINE.split(raw.decode("utf-8").removeprefix("\ufeff")):
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            name = value
    return Event(raw, "\n".join(data) if data else None, name)


def ends_cleanly(events: list[Event], rest: bytes) -> bool:
    """Whether a transcript of chat or text completions ends with its `[DONE]`, once and last (rule P1)."""
    told = [event.data for event in events if event.data is not None]
    return not rest.strip() and bool(told) and told[-1] == DONE and told.count(DONE) == 1


class Splitter:
    """Cuts a stream of chunks into whole events as they come, at a cost linear in the bytes.

    Once an event is longer than `longest_bytes` it `has_given_up`: what was held back goes out, and from then on every
    chunk as it comes (rule R3).
    """

    def __init__(self, *, longest_bytes: int = LONGEST_EVENT_BYTES) -> None:
        self.has_given_up = False
        self._longest_bytes = longest_bytes
        self._held = bytearray()
        self._searched = 0
        self._has_cr = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The bytes of each event that this chunk completes."""
        if self.has_given_up:
            return [chunk] if chunk else []
        self._held += chunk
        self._has_cr = self._has_cr or b"\r" in chunk
        found = self._feed_any() if self._has_cr else self._feed_simple()
        if len(self._held) > self._longest_bytes:
            self.has_given_up = True
            found.append(self.rest())
        return found

    def _feed_simple(self) -> list[bytes]:
        """Without a CR every event ends with two LFs."""
        held, found, at, searched = self._held, [], 0, self._searched
        while (blank := held.find(b"\n\n", searched)) >= 0:
            found.append(bytes(held[at : blank + 2]))
            at = searched = blank + 2
        del held[:at]
        self._searched = max(0, len(held) - 1)
        return found

    def _feed_any(self) -> list[bytes]:
        held = self._held
        # A CR at the very end may be half of a CR LF: it is looked at again with the next chunk.
        seen = len(held) - 1 if held.endswith(b"\r") else len(held)
        found, at = [], 0
        for blank in _BLANK.finditer(held, self._searched, seen):
            found.append(bytes(held[at : blank.end()]))
            at = blank.end()
        del held[:at]
        # A blank line is at most four bytes, so its first three may be here already.
        self._searched = max(0, seen - at - 3)
        self._has_cr = self._has_cr if not found else b"\r" in held
        return found

    def rest(self) -> bytes:
        """What came after the last whole event."""
        held = bytes(self._held)
        self._held.clear()
        self._searched, self._has_cr = 0, False
        return held
