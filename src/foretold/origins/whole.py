"""An answer that is all here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence


class WholeAnswer:
    is_fallback = False

    def __init__(
        self,
        status: int,
        headers: Sequence[tuple[str, str]],
        body: bytes,
        *,
        is_proven: bool,
        why_not: str | None = None,
    ):
        self.status = status
        self.headers = headers
        self.length: int | None = len(body)
        self.is_proven = is_proven
        self.why_not = why_not
        self._body = body

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._body

    async def close(self) -> None:
        """Nothing runs any more."""
