"""An origin whose every step a test decides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from foretold.errors import ForetoldError
from foretold.ports import Asked, Forwarded


class FakeIncoming:
    def __init__(
        self,
        chunks: Sequence[bytes | ForetoldError | asyncio.Event],
        *,
        status: int = 200,
        headers: Sequence[tuple[str, str]] = (("content-type", "application/json"),),
        is_proven: bool = True,
    ):
        """An event among the chunks is waited for; an error is raised."""
        self.status = status
        self.headers = headers
        self.length: int | None = None
        self.is_fallback = False
        self.is_proven = is_proven
        self.why_not: str | None = None
        self.closed = 0
        self._chunks = chunks

    def __str__(self) -> str:
        return f"an answer of {self.status}"

    async def chunks(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            if isinstance(chunk, asyncio.Event):
                await chunk.wait()
            elif isinstance(chunk, ForetoldError):
                raise chunk
            else:
                yield chunk

    async def close(self) -> None:
        self.closed += 1


class FakeOrigin:
    """Gives what it was made with, one after another; the last again and again."""

    def __init__(self, *answers: FakeIncoming | ForetoldError, name: str = "fake"):
        self.name = name
        self.limits_answers = False
        self.asked: list[Asked] = []
        self.forwarded: list[Forwarded] = []
        self._answers = answers

    async def fetch(self, asked: Asked, forwarded: Forwarded) -> FakeIncoming:
        self.asked.append(asked)
        self.forwarded.append(forwarded)
        answer = self._answers[min(len(self.asked), len(self._answers)) - 1]
        if isinstance(answer, ForetoldError):
            raise answer
        return answer

    async def close(self) -> None:
        return None
