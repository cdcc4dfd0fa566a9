"""A stand-in for a model's engine, listening on a unix socket in the test's own loop, and for the host that runs it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass, field
from pathlib import Path

from foretold.errors import ModelError
from foretold.models.host import Door

CUT = object()
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def event(chunk) -> bytes:
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def said(text: str | None, finish: str | None = None) -> bytes:
    delta = {} if text is None else {"content": text}
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return event({"id": "chatcmpl-x", "system_fingerprint": "b0-unknown", "choices": [choice]})


PROGRESS = event({"choices": [], "prompt_progress": {"total": 9, "processed": 1}})
DONE = b"data: [DONE]\n\n"
ANSWER = [PROGRESS, said("blue"), said(None, "stop"), DONE]


def error(status: int, **members) -> bytes:
    body = json.dumps({"error": {"code": status, "message": "at /some/file", "type": "x", **members}}).encode()
    return b"HTTP/1.1 %d x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (
        status,
        len(body),
        body,
    )


@dataclass
class Asked:
    route: str
    headers: dict[str, str]
    body: dict
    left: asyncio.Event = field(default_factory=asyncio.Event)


class FakeEngine:
    """Plays one script a request, the last again and again.

    A script is raw bytes (a whole HTTP answer), or a list: bytes are sent as one piece of a stream, the first with the
    answer's head; an Event is waited for, CUT breaks off.
    """

    def __init__(self, folder: Path, *scripts):
        self.socket = folder / "engine.sock"
        self.scripts = list(scripts) or [ANSWER]
        self.asked: list[Asked] = []
        self.arrived = asyncio.Event()
        self._connections: dict[asyncio.Task, asyncio.StreamWriter] = {}

    async def __aenter__(self) -> FakeEngine:
        self._server = await asyncio.start_unix_server(self._connected, self.socket)
        return self

    async def __aexit__(self, *_) -> None:
        self._server.close()
        self.cut_all()
        await asyncio.gather(*self._connections)

    def cut_all(self) -> None:
        """As if its process had died."""
        for writer in self._connections.values():
            writer.transport.abort()

    async def _connected(self, reader, writer) -> None:
        self._connections[asyncio.current_task()] = writer
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            asked = Asked(
                head[0].split(" ")[1], headers, json.loads(await reader.readexactly(int(headers["content-length"])))
            )
            self.asked.append(asked)
            self.arrived.set()
            script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
            playing = asyncio.create_task(self._play(script, writer))
            with contextlib.suppress(ConnectionError):
                await reader.read()
            asked.left.set()
            playing.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await playing
        finally:
            writer.close()

    async def _play(self, script, writer) -> None:
        if isinstance(script, bytes):
            writer.write(script)
            return
        head = STREAM
        for step in script:
            if step is CUT:
                writer.transport.abort()
                return
            if isinstance(step, asyncio.Event):
                await step.wait()
            else:
                writer.write(b"%s%x\r\n%s\r\n" % (head, len(step), step))
                head = b""
        writer.write(head + b"0\r\n\r\n")


class FakeHost:
    """Whose engine is already there, or cannot be had."""

    def __init__(self, socket: Path, *, fails: str | None = None):
        self._socket = socket
        self._fails = fails
        self.starts = 0
        self.condemned: list[str] = []

    async def start(self) -> Door:
        self.starts += 1
        if self._fails is not None:
            raise ModelError(self._fails)
        return Door(self._socket, "a key", pid=0)

    async def condemn(self, door: Door, why: str) -> None:
        self.condemned.append(why)
