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


SAMPLED = {"test_upstream.py", "test_callers.py"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of these files every third case runs each time, and all of them with `make faults`."""
    sampled = [item for item in items if item.path.parent.name == "faults" and item.path.name in SAMPLED]
    for at, item in enumerate(sampled):
        if at % 3:
            item.add_marker("slow")
