"""What any Python server pays: uvicorn, a body read and a fixed answer, without any cache.

`/transcript` answers the 203 events, any other path the 556 bytes.  Prints where it listens as one JSON line.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from answers import TRANSCRIPT, WHOLE
from plain import serve

Message = dict[str, Any]


def _start(kind: bytes, body: bytes) -> Message:
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
    return {"type": "http.response.start", "status": 200, "headers": headers}


_WHOLE = _start(b"application/json", WHOLE), {"type": "http.response.body", "body": WHOLE}
_EVENTS = _start(b"text/event-stream", TRANSCRIPT), {"type": "http.response.body", "body": TRANSCRIPT}


async def app(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    while (await receive()).get("more_body"):
        pass
    start, body = _EVENTS if scope["path"] == "/transcript" else _WHOLE
    await send(start)
    await send(body)


if __name__ == "__main__":
    serve(app)
