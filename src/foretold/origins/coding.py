"""Undoing the content coding of an answer, with limits and with proof of its end.

We ask for `identity`; some servers compress anyway.  A library's own decoder takes a truncated gzip stream for whole
and a small bomb for an answer, so this one does neither.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

from foretold.errors import OriginError

LARGEST_DECODED_BYTES = 256 * 1024 * 1024
_CHUNK = 64 * 1024
_WINDOW = {"gzip": 31, "x-gzip": 31, "deflate": 15}


class Identity:
    """No coding: the framing alone tells the end."""

    is_at_end = True

    def decode(self, chunk: bytes) -> Iterable[bytes]:
        return (chunk,)


class Unknown(Identity):
    """A coding we can't undo: passed on as it is, never proved."""

    is_at_end = False


class Compressed:
    def __init__(self, coding: str):
        self._window = _WINDOW[coding]
        self._decoder = zlib.decompressobj(self._window)
        self._decoded_bytes = 0
        self._began = False

    @property
    def is_at_end(self) -> bool:
        return self._decoder.eof or not self._began

    def decode(self, chunk: bytes) -> Iterator[bytes]:
        """Decoded pieces of at most 64 KiB, each made when it is asked for: a small chunk can hold a thousand times as
        much.  Raises OriginError for what isn't of this coding, or is too much.
        """
        try:
            while chunk:
                if self._decoder.eof:  # a gzip stream may have several members
                    self._decoder = zlib.decompressobj(self._window)
                self._began = True
                piece = self._decoder.decompress(chunk, _CHUNK)
                self._decoded_bytes += len(piece)
                if self._decoded_bytes > LARGEST_DECODED_BYTES:
                    raise OriginError(f"the origin's answer is longer than {LARGEST_DECODED_BYTES} bytes once decoded")
                if piece:
                    yield piece
                chunk = self._decoder.unconsumed_tail or self._decoder.unused_data
        except zlib.error:
            raise OriginError("the origin's answer is not of the content coding it names") from None


def decoder_for(coding: str) -> Identity | Compressed:
    coding = coding.strip().lower()
    if coding in ("", "identity"):
        return Identity()
    return Compressed(coding) if coding in _WINDOW else Unknown()
