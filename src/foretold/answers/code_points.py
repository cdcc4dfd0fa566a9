"""Text on its way is cut between code points: no chunk of ours begins or ends inside one.

Upstreams and networks cut where they like, also inside a Vietnamese letter or an emoji, and many a client decodes chunk
by chunk.  The bytes stay the origin's; only where they are cut may change.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

_LONGEST = 4


class CodePoints:
    """Cuts UTF-8 anew as it comes, holding back at most three bytes; what isn't UTF-8 goes through."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """What can go out now: all that has come, but for the beginning of a code point at its end."""
        text = self._held + chunk if self._held else chunk
        begun = _begun_at_the_end(text)
        self._held = text[len(text) - begun :] if begun else b""
        return text[: len(text) - begun] if begun else text

    def rest(self) -> bytes:
        """What is held at the end of a text that itself ends inside a code point."""
        held, self._held = self._held, b""
        return held


async def cut_anew(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same text in chunks of whole code points."""
    points = CodePoints()
    async for chunk in chunks:
        if told := points.feed(chunk):
            yield told
    if rest := points.rest():
        yield rest


def is_utf8(content_type: str) -> bool:
    """Whether a body of this type is text in UTF-8, as far as its type tells."""
    kind, _, parameters = content_type.lower().partition(";")
    kind = kind.strip()
    if not (kind.startswith("text/") or kind == "application/json" or kind.endswith(("+json", "/x-ndjson"))):
        return False
    charset = next((p.partition("=")[2] for p in parameters.split(";") if p.strip().startswith("charset=")), "")
    return charset.strip(' "') in ("", "utf-8", "utf8")


def _begun_at_the_end(text: bytes) -> int:
    """Bytes of the last code point, if not all of it is here; 0 otherwise, and for what is no beginning of one."""
    for back in range(1, min(_LONGEST, len(text) + 1)):
        byte = text[-back]
        if byte & 0xC0 == 0x80:
            continue
        length = 2 if 0xC2 <= byte <= 0xDF else 3 if 0xE0 <= byte <= 0xEF else 4 if 0xF0 <= byte <= 0xF4 else 1
        return back if back < length else 0
    return 0
