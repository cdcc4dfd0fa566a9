"""The program of a host process for engine `python`: a function of whoever runs the node, asked as any engine is.

Run as `python -m foretold.models.python_engine`, as `engine.py` is.  The function is called with what is asked, `chat` or
`completion`, and the body in OpenAI's shape.  It gives text or OpenAI's shapes, at once or one by one (`telling.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import importlib
import os
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from foretold.models.calling import called
from foretold.models.engine import confine
from foretold.models.handshake import drop_inherited_files, keep_stdout_to_ourselves, tell
from foretold.models.launch import Launch, Own, launch_of
from foretold.models.process import FAULT
from foretold.models.telling import END, NoAnswer, Telling, error_event

_OPERATIONS = {"/v1/chat/completions": "chat", "/v1/completions": "completion"}
_LONGEST_BODY_BYTES = 64 * 2**20


def main() -> None:
    drop_inherited_files()
    answers = keep_stdout_to_ourselves()
    launch = launch_of(sys.stdin.buffer.readline())
    confine(launch)
    own = launch.own
    assert own is not None
    try:
        function = function_of(own)
    except BaseException as e:  # noqa: BLE001 - whatever a foreign module raises, even SystemExit, is why it can't be run
        traceback.print_exc()
        tell(answers, {"failed": f"{own.callable!r} can't be imported: {type(e).__name__}: {e}"})
        return
    threading.Thread(target=_end_with_stdin, args=(launch,), daemon=True).start()
    asyncio.run(serve(function, launch, ready=lambda: tell(answers, {"ready": True, "engine": "python"})))


def function_of(own: Own) -> Callable[[str, dict[str, Any]], Any]:
    """Raises what its module raises, or TypeError for what can't be called."""
    os.environ.update(own.environment)
    if own.path:
        os.chdir(own.path)
        sys.path.insert(0, own.path)
    module, _, names = own.callable.partition(":")
    found: Any = importlib.import_module(module)
    for name in names.split("."):
        found = getattr(found, name)
    if not callable(found):
        raise TypeError(f"{names} is a {type(found).__name__}, and no function")
    return found  # type: ignore[no-any-return]


async def serve(function: Callable[[str, dict[str, Any]], Any], launch: Launch, *, ready: Callable[[], None]) -> None:
    """Until this process ends."""
    slots = asyncio.Semaphore(launch.parallel)
    wanted = f"Bearer {launch.api_key}".encode()

    async def answer(request: web.Request) -> web.StreamResponse:
        if not hmac.compare_digest(request.headers.get("authorization", "").encode(), wanted):
            return web.json_response({"error": {"code": 401}}, status=401)
        operation = _OPERATIONS[request.path]
        pieces = called(function, operation, orjson.loads(await request.read()), slots=slots)
        return await _answered(request, Telling(operation, launch.alias), pieces)

    app = web.Application(client_max_size=_LONGEST_BODY_BYTES)
    for path in _OPERATIONS:
        app.router.add_post(path, answer)
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None)
    await runner.setup()
    await web.UnixSite(runner, launch.socket).start()
    ready()
    await asyncio.Event().wait()


async def _answered(request: web.Request, telling: Telling, pieces: AsyncIterator[Any]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    async with contextlib.aclosing(pieces):  # type: ignore[type-var]
        try:
            first = telling.told(await anext(pieces, END))
        except Exception as e:  # noqa: BLE001 - whatever a foreign function raises is an error of this request
            _log_fault(e)
            return web.json_response({"error": {"code": 500, "type": "callable_failed"}}, status=500)
        await response.prepare(request)
        await response.write(first)
        while not telling.is_over:
            try:
                event = telling.told(await anext(pieces, END))
            except Exception as e:  # noqa: BLE001 - as above
                _log_fault(e)
                event = error_event()
                telling.is_over = True
            await response.write(event)
    return response


def _log_fault(error: Exception) -> None:
    """Its kind and place for the node's log: its words may be those of a query, unless they are ours."""
    if isinstance(error, NoAnswer):
        print(f"{FAULT}its function gave no answer: {error}", file=sys.stderr, flush=True)
        return
    frames = traceback.extract_tb(error.__traceback__)
    at = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    print(f"{FAULT}its function failed: {type(error).__name__}{at}", file=sys.stderr, flush=True)


def _end_with_stdin(launch: Launch) -> None:
    """Whoever began us closes it, or dies."""
    sys.stdin.buffer.read()
    with contextlib.suppress(OSError):
        Path(launch.socket).unlink(missing_ok=True)
    os._exit(0)


if __name__ == "__main__":
    main()
