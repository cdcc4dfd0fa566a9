from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop

# What its helpers assert is told as fully as what a test itself asserts.
pytest.register_assert_rewrite("tests.faults.invariants")


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that the program runs on: some faults are its own."""
    return {"uvloop": uvloop.new_event_loop}
