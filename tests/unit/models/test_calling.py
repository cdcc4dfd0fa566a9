"""A slot that a function takes is given back, whatever becomes of it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from foretold.models.calling import called


async def test_where_no_thread_can_be_started_the_slot_is_free_for_the_next(monkeypatch):
    slots = asyncio.Semaphore(1)

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            await anext(called(lambda operation, body: "text", "chat", {}, slots=slots))

    assert [piece async for piece in called(lambda operation, body: "text", "chat", {}, slots=slots)] == ["text"]
