"""Calls a function of any kind (plain, generator, async, async generator) and gives what comes of it, piece by piece.

A plain one runs in a thread of its own.  When its caller leaves it gets an exception there, which ends whatever is made
of Python at its next step; a slot is given back only once the thread has ended.
"""

from __future__ import annotations

import asyncio
import ctypes
import inspect
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

_AHEAD = 16
_END = object()


class Left(BaseException):
    """Nobody waits for the answer any more.  No `except Exception` holds it up."""


async def called(
    function: Callable[[str, dict[str, Any]], Any], operation: str, body: dict[str, Any], *, slots: asyncio.Semaphore
) -> AsyncIterator[Any]:
    """What the function gives.  Raises what it raises."""
    await slots.acquire()
    if _is_async(function):
        try:
            made = function(operation, body)
            if inspect.isawaitable(made):
                made = await made
            async for piece in _each(made):
                yield piece
        except (SystemExit, KeyboardInterrupt) as e:
            # These would end the loop, and with it the answers of others.
            raise RuntimeError(f"the function raised {type(e).__name__}").with_traceback(e.__traceback__) from None
        finally:
            slots.release()
        return
    try:
        call = _InThread(function, operation, body, ended=slots.release)
    except BaseException:
        slots.release()  # no thread could be started, and so none will end
        raise
    try:
        while (piece := await call.next()) is not _END:
            yield piece
    finally:
        call.leave()


def _is_async(function: Callable[..., Any]) -> bool:
    kinds = (function, getattr(function, "__call__", None))  # noqa: B004 - an object with an async __call__ is one too
    return any(inspect.iscoroutinefunction(kind) or inspect.isasyncgenfunction(kind) for kind in kinds)


async def _each(made: Any) -> AsyncIterator[Any]:
    if hasattr(made, "__aiter__"):
        try:
            async for piece in made:
                yield piece
        finally:
            if hasattr(made, "aclose"):
                await made.aclose()
    else:
        yield made


class _InThread:
    def __init__(
        self,
        function: Callable[[str, dict[str, Any]], Any],
        operation: str,
        body: dict[str, Any],
        *,
        ended: Callable[[], None],
    ):
        self._call: Callable[[], Any] = lambda: function(operation, body)
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._pieces: asyncio.Queue[Any] = asyncio.Queue()
        self._room = threading.Semaphore(_AHEAD)
        self._lock = threading.Lock()
        self._has_left = False
        self._is_done = False
        self._is_over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    async def next(self) -> Any:
        piece = await self._pieces.get()
        self._room.release()
        if isinstance(piece, BaseException):
            raise piece
        return piece

    def leave(self) -> None:
        """Ends it at its next step, if it hasn't ended."""
        with self._lock:
            self._has_left = True
            self._room.release()
            if not self._is_done and self._thread.ident is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread.ident), ctypes.py_object(Left))

    def _run(self) -> None:
        last: Any = _END
        try:
            try:
                self._give(self._call())
            finally:
                with self._lock:
                    self._is_done = True
        except Left:
            pass
        except StopIteration:
            last = RuntimeError("the function raised StopIteration")
        except BaseException as e:  # noqa: BLE001 - whatever it is, it belongs to whoever waits for the answer
            last = e if isinstance(e, Exception) else RuntimeError(f"the function raised {type(e).__name__}")
        while True:
            try:
                self._loop.call_soon_threadsafe(self._over, last)
                return
            except Left:  # it comes a moment after it was sent
                continue

    def _give(self, made: Any) -> None:
        if not hasattr(made, "__next__"):
            self._put(made)
            return
        try:
            for piece in made:
                self._put(piece)
        finally:
            if hasattr(made, "close"):
                made.close()

    def _put(self, piece: Any) -> None:
        """Waits while the reader is far behind.  Raises Left."""
        self._room.acquire()
        if self._has_left:
            raise Left
        self._loop.call_soon_threadsafe(self._pieces.put_nowait, piece)

    def _over(self, last: Any) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._ended()
        self._pieces.put_nowait(last)
