"""What goes to a caller."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from foretold.outcome import Outcome

RawHeaders = Sequence[tuple[bytes, bytes]]


@dataclass(slots=True)
class Answer:
    """A whole body, or chunks as they come.  `close` is awaited once, however it ended."""

    status: int
    headers: RawHeaders
    outcome: Outcome
    body: bytes = b""
    chunks: AsyncIterator[bytes] | None = None
    close: Callable[[], Awaitable[None]] | None = None


def raw(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    """Headers as they go out; what isn't Latin-1 becomes a question mark."""
    return [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers]
