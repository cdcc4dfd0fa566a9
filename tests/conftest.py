from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.fakes.upstream import FakeUpstream


@pytest.fixture
async def upstream() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream() as fake:
        yield fake
