from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.library.proxy import Proxy
from tests.library.weed import Weed, weed

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def server(tmp_path_factory) -> Iterator[Weed]:
    with weed(tmp_path_factory.mktemp("weed")) as running:
        yield running


@pytest.fixture
def address() -> str:
    """A library that nobody else uses."""
    return f"s3://models/library-{next(_NUMBERS)}"


@pytest.fixture
async def proxy(server) -> AsyncIterator[Proxy]:
    async with Proxy(server.endpoint) as between:
        yield between


@pytest.fixture
def folder(tmp_path) -> Path:
    """A machine's folder of models."""
    return tmp_path / "models"
