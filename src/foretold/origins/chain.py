"""The origins of a route in their order: retries at each, then the next (rule U1)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from foretold.contract.manners import MAX_RETRIES, Failure, may_fall_back, retry_after_s
from foretold.errors import (
    ForetoldError,
    OriginCut,
    OriginError,
    OriginTimeout,
    OriginUnreachable,
    Refused,
    without_traces,
)
from foretold.fields import by_name
from foretold.ports import Asked, Forwarded, Incoming, Origin

# The header that names who answered instead of a route's own origin.
FALLBACK = "foretold-fallback"


class Chain:
    def __init__(self, origins: Sequence[Origin], *, retries: int = MAX_RETRIES):
        self.name = origins[0].name
        self.limits_answers = origins[0].limits_answers
        self._origins = tuple(origins)
        self._retries = retries

    async def fetch(self, asked: Asked, forwarded: Forwarded) -> Incoming:
        """The first good answer, its first bytes already here; where all fail, what the first origin said.

        What passes may have side effects, known or hidden in a body without a key: it is asked once (rules K12, U1).
        """
        first = await self._ask(self._origins[0], asked, forwarded, is_fallback=False)
        if _may_fall_back(first, once=_once(asked)):
            # A caller's credential is for the route's own origin and no other; the others use what the settings give.
            other = await self._ask_others(
                asked, replace(forwarded, credential=None, may_use_own=True), instead_of=first
            )
            if other is not None:
                return other
        if isinstance(first, Begun):
            return first
        try:
            raise first
        finally:
            del first  # it would hold this frame, and this frame it

    async def _ask_others(
        self, asked: Asked, forwarded: Forwarded, *, instead_of: Begun | ForetoldError
    ) -> Begun | None:
        """The first good answer of the further origins; what it replaces is then closed, and if we are cancelled."""
        is_replaced = True
        try:
            for origin in self._origins[1:]:
                got = await self._ask(origin, asked, forwarded, is_fallback=True)
                if isinstance(got, Begun):
                    if got.status < 400:
                        return got
                    await got.close()
            is_replaced = False
            return None
        finally:
            if is_replaced and isinstance(instead_of, Begun):
                await instead_of.close()

    async def close(self) -> None:
        for origin in self._origins:
            await origin.close()

    async def _ask(
        self, origin: Origin, asked: Asked, forwarded: Forwarded, *, is_fallback: bool
    ) -> Begun | ForetoldError:
        retries_done = 0
        while True:
            got = await _begin(origin, asked, forwarded, is_fallback=is_fallback)
            wait_s = self._wait_s(got, retries_done, once=_once(asked))
            if wait_s is None:
                return got
            if isinstance(got, Begun):
                await got.close()
            await asyncio.sleep(wait_s)
            retries_done += 1

    def _wait_s(self, got: Begun | ForetoldError, retries_done: int, *, once: bool) -> float | None:
        if retries_done >= self._retries:
            return None
        failure, status, retry_after = None, None, None
        if isinstance(got, Begun):
            status, retry_after = got.status, by_name(got.headers).get("retry-after")
        elif (failure := _failure(got)) is None:
            return None
        return retry_after_s(
            failure=failure,
            status=status,
            retry_after=retry_after,
            sent_any=False,
            retries_done=retries_done,
            chance=random.random(),  # noqa: S311 - spreads retries, guards nothing
            once=once,
        )


class Begun:
    """An answer whose first bytes are here: what fails before them could still be asked again."""

    def __init__(self, incoming: Incoming, rest: AsyncIterator[bytes], first: bytes | None, *, instead_by: str | None):
        """`instead_by` names the origin that answered instead of the route's own."""
        self.status = incoming.status
        self.headers = incoming.headers if instead_by is None else _labelled(incoming.headers, instead_by)
        self.length = incoming.length
        self.is_fallback = instead_by is not None
        self._incoming = incoming
        self._first = first
        self._rest = rest

    @property
    def is_proven(self) -> bool:
        return self._incoming.is_proven

    @property
    def why_not(self) -> str | None:
        return self._incoming.why_not

    async def chunks(self) -> AsyncIterator[bytes]:
        if self._first is not None:
            yield self._first
            async for chunk in self._rest:
                yield chunk

    async def close(self) -> None:
        await self._incoming.close()


async def _begin(origin: Origin, asked: Asked, forwarded: Forwarded, *, is_fallback: bool) -> Begun | ForetoldError:
    try:
        incoming = await origin.fetch(asked, forwarded)
    except (OriginError, Refused) as error:
        return without_traces(error)
    rest = incoming.chunks()
    try:
        first = await anext(rest, None)
    except OriginError as error:
        await incoming.close()
        return without_traces(error)
    except BaseException:
        await incoming.close()
        raise
    return Begun(incoming, rest, first, instead_by=origin.name if is_fallback else None)


def _labelled(headers: Sequence[tuple[str, str]], name: str) -> list[tuple[str, str]]:
    shown = "".join(c if " " <= c <= "~" else "?" for c in name)
    return [*(field for field in headers if field[0] != FALLBACK), (FALLBACK, shown)]


def _failure(error: ForetoldError) -> Failure | None:
    match error:
        case OriginUnreachable():
            return Failure.CONNECT
        case OriginTimeout():
            return Failure.TIMEOUT
        case OriginCut():
            return Failure.CUT
    return None


def _may_fall_back(got: Begun | ForetoldError, *, once: bool) -> bool:
    if isinstance(got, Begun):
        return may_fall_back(failure=None, status=got.status, once=once)
    return isinstance(got, OriginError) and not once


def _once(asked: Asked) -> bool:
    return asked.passes is not None
