"""One run of an origin for several queries: the flight of each brings its part of the answer (rule P5).

The run goes on while any of these flights does.  An error of the origin's is every flight's answer; what can't be taken
apart, or is the fault of one query among others, is nobody's but the caller's who asked just these: `came`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from foretold.answers.reshaping import LONGEST_AT_ONCE
from foretold.errors import NotShared
from foretold.ports import Incoming
from foretold.projections.embedding import Unsplit, split

LONGEST_BYTES = 64 * 1024 * 1024
_OF_THE_BYTES = frozenset(["content-md5", "digest", "content-digest", "repr-digest", "accept-ranges"])
ESTIMATED = ("foretold-usage", "estimated")


@dataclass(frozen=True, slots=True)
class Came:
    """An answer of which all is here (ports.Incoming); `of` is the call that it is, or is a part of."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes
    is_fallback: bool
    is_proven: bool
    why_not: str | None
    of: Call | None = None

    @property
    def length(self) -> int:
        return len(self.body)

    @property
    def is_estimated(self) -> bool:
        """Whether its usage is a share of what an origin told of several."""
        return any(name == ESTIMATED[0] for name, _ in self.headers)

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self.body

    async def close(self) -> None:
        """There is nothing left to stop."""


class Call:
    """`keys` are those it is for, in the order in which they are asked; they are fixed once it runs.

    `came` is the whole answer, None while it isn't here and if it is too long to be taken apart.  `why_not_shared` says
    why no flight has a part of it.
    """

    def __init__(self, fetch: Callable[[Sequence[str]], Awaitable[tuple[Incoming, Sequence[int]]]]):
        """`fetch` gives the origin's answer to what the keys stand for, and the weight of each."""
        self.keys: list[str] = []
        self.came: Came | None = None
        self.why_not_shared: str | None = None
        self._fetch = fetch
        self._parts: dict[str, Came] = {}
        self._run: asyncio.Task[None] | None = None
        self._waiting = 0

    async def part(self, key: str) -> Came:
        """What a flight brings.  Raises OriginError as the origin did, and NotShared."""
        if self._run is None:
            self._run = asyncio.create_task(self._runs())
        self._waiting += 1
        try:
            await asyncio.shield(self._run)
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._run.cancel()
        part = self._parts.get(key)
        if part is None:
            raise NotShared("the answer to several inputs is of no use for this one alone", of=self)
        return part

    async def _runs(self) -> None:
        incoming, weights = await self._fetch(self.keys)
        try:
            body = await _read(incoming)
        finally:
            await incoming.close()
        if body is None:
            self.why_not_shared = "too-long"
            return
        self.came = Came(
            incoming.status, incoming.headers, body, incoming.is_fallback, incoming.is_proven, incoming.why_not, self
        )
        if len(self.keys) == 1 or incoming.status == 429 or incoming.status >= 500:
            self._parts = dict.fromkeys(self.keys, self.came)
        elif incoming.status != 200 or not incoming.is_proven:
            self.why_not_shared = "status" if incoming.status != 200 else "end-unproven"
        else:
            await self._take_apart(self.came, weights)

    async def _take_apart(self, came: Came, weights: Sequence[int]) -> None:
        try:
            if len(came.body) <= LONGEST_AT_ONCE:
                bodies = split(came.body, weights)
            else:
                bodies = await asyncio.to_thread(split, came.body, weights)
        except Unsplit as unsplit:
            self.why_not_shared = unsplit.why
            return
        headers = [field for field in came.headers if field[0] not in _OF_THE_BYTES]
        if any(b'"usage"' in body for body in bodies):
            headers.append(ESTIMATED)
        self._parts = {
            key: replace(came, headers=headers, body=body) for key, body in zip(self.keys, bodies, strict=True)
        }


async def _read(incoming: Incoming) -> bytes | None:
    """All of an answer; None if it is too long."""
    if incoming.length is not None and incoming.length > LONGEST_BYTES:
        return None
    got, size = [], 0
    async for chunk in incoming.chunks():
        size += len(chunk)
        if size > LONGEST_BYTES:
            return None
        got.append(chunk)
    return b"".join(got)
