from __future__ import annotations

import gc
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.upstream import FakeUpstream

TESTS = Path(__file__).parent
# Their files take longest: whoever runs side by side begins with them.
LONGEST = ("docs", "library")


def pytest_configure() -> None:
    """What a shell starts in the background ignores Ctrl-C, and so would every program that tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """The tests themselves are left out of each collection of garbage: they are half a million objects."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.relative_to(TESTS).parts[0] not in LONGEST)


@pytest.fixture
async def upstream() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream() as fake:
        yield fake
