"""The one way to wait for a state that tells no event: look again until it is there, and not for ever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def until(is_so: Callable[[], bool], *, within_s: float = 20) -> None:
    """Returns once it is so.  Raises AssertionError if it isn't in time."""
    deadline = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < deadline, "it never came to be so"
        await asyncio.sleep(0.002)


async def answered(ask: Callable[[], Awaitable[T]], *, such_that: Callable[[T], bool], within_s: float = 30) -> T:
    """Asks again until the answer is such.  Raises AssertionError with the last one if none is in time."""
    deadline = time.monotonic() + within_s
    while not such_that(answer := await ask()):
        assert time.monotonic() < deadline, answer
        await asyncio.sleep(0.01)
    return answer
