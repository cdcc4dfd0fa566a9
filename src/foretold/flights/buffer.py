"""What has come of an answer, for riders who read it each at its own place."""

from __future__ import annotations


class Buffer:
    """Chunks by place.  The front can be forgotten; all of it together costs no more than what came."""

    def __init__(self) -> None:
        self.came_bytes = 0
        self.held_bytes = 0
        self._chunks: list[bytes] = []
        # Places before `_first` are no longer listed; those before `_kept_from` are listed, but forgotten.
        self._first = 0
        self._kept_from = 0
        self._joined: bytes | None = None

    @property
    def end(self) -> int:
        """The place of the next chunk to come."""
        return self._first + len(self._chunks)

    @property
    def is_whole(self) -> bool:
        """Whether nothing was forgotten."""
        return self._kept_from == 0

    def add(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._joined = None
        self.came_bytes += len(chunk)
        self.held_bytes += len(chunk)

    def at(self, place: int) -> bytes | None:
        """The chunk at a place that wasn't forgotten, if it is here."""
        at = place - self._first
        return self._chunks[at] if at < len(self._chunks) else None

    def forget_before(self, place: int) -> bool:
        """Forgets what lies before a place; whether that was anything."""
        if place <= self._kept_from:
            return False
        for at in range(self._kept_from - self._first, place - self._first):
            self.held_bytes -= len(self._chunks[at])
            self._chunks[at] = b""
        self._kept_from = place
        # The list itself shrinks by halves: moving its rest at every chunk would cost the square of their number.
        if 2 * (place - self._first) >= len(self._chunks):
            del self._chunks[: place - self._first]
            self._first = place
        return True

    def joined(self) -> bytes:
        """All that came, of a whole one; the same bytes until more comes."""
        if self._joined is None:
            self._joined = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        return self._joined
