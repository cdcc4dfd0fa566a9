"""What goes to a caller: an answer on its way from an origin, or a hit that lies ready."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from foretold.outcome import How, Outcome

RawHeaders = Sequence[tuple[bytes, bytes]]

_NEVER_IN_A_LINE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


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


@dataclass(slots=True)
class Hit:
    """A record's answer, and its account.  `lines` are its header fields as they go out, each with its line end.

    `is_due` says that it is stale and given while a new one is fetched (rule F1).  One object may be given again and
    again; nobody changes it.
    """

    status: int
    lines: bytes
    body: bytes
    how: How
    tier: str
    operation: str
    model: str
    route: str
    origin_ms: int
    is_due: bool = False

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """The fields of the lines, for those who send them one by one."""
        return [(name, value) for name, _, value in (line.partition(b": ") for line in self.lines.split(b"\r\n")[:-1])]

    def tell(self, outcome: Outcome) -> None:
        """Puts the account into an outcome."""
        outcome.how, outcome.tier, outcome.origin_ms = self.how, self.tier, self.origin_ms
        outcome.operation, outcome.model, outcome.route = self.operation, self.model, self.route
        outcome.status, outcome.body_bytes = self.status, len(self.body)


def lines_of(headers: RawHeaders) -> bytes:
    """Header fields as they go out; one with a control character, which could begin another line, is left out."""
    kept = [b"%s: %s\r\n" % (n, v) for n, v in headers if not _NEVER_IN_A_LINE.search(v)]
    return b"".join(kept)
