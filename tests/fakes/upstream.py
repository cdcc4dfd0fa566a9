"""An OpenAI-compatible upstream that does what a test tells it, over real sockets.

By default it answers each chat with a text that repeats the caller's last message and counts its calls, so that a
foreign, mixed or stale answer shows.  `on(model, reply)` gives a model another reply; replies write raw HTTP, so that
they can break its rules.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.vectors import embeddings


@dataclass
class Call:
    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    cut: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        return next((value for n, value in self.headers if n == name), None)


Reply = Callable[[Call, asyncio.StreamWriter, int], Awaitable[None]]


class _Protocol(asyncio.StreamReaderProtocol):
    """Tells a running call at once that its caller has gone."""

    def __init__(self, serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]):
        super().__init__(asyncio.StreamReader(limit=2**25), serve)
        self.call: Call | None = None

    def eof_received(self) -> bool | None:
        self._caller_left()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._caller_left()
        super().connection_lost(exc)

    def _caller_left(self) -> None:
        if self.call is not None:
            self.call.cut.set()


class FakeUpstream:
    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.calls: list[Call] = []
        self._tls = tls
        self._replies: dict[str, Reply] = {}
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._news = asyncio.Condition()

    def on(self, name: str, reply: Reply) -> None:
        """What to do for a model of this name, or for this path."""
        self._replies[name] = reply

    @property
    def url(self) -> str:
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://127.0.0.1:{self._port}/v1"

    async def refuse(self) -> None:
        """Nobody listens at its address any more, and who was connected is not."""
        assert self._server is not None
        self._server.close()
        self.hang_up()

    async def accept(self) -> None:
        """It listens again where it did."""
        await self._listen(self._port)

    def hang_up(self) -> None:
        """Closes every connection."""
        for writer in self._writers:
            writer.close()

    async def called(self, times: int) -> None:
        """Returns once it was called so often."""
        async with asyncio.timeout(20), self._news:
            await self._news.wait_for(lambda: len(self.calls) >= times)

    async def __aenter__(self) -> FakeUpstream:
        await self._listen(0)
        return self

    async def _listen(self, port: int) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Protocol(self._serve), "127.0.0.1", port, ssl=self._tls)
        self._port = self._server.sockets[0].getsockname()[1]

    async def __aexit__(self, *_: object) -> None:
        await self.goes_down()

    async def comes_back(self) -> None:
        """Listens again where it did before it went down."""
        await self._listen(self._port)

    async def goes_down(self) -> None:
        """Closes its port and breaks off all connections, as a process that dies."""
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            while await self._serve_one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            self._writers.discard(writer)
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ")
        headers = [(n.lower(), v.strip()) for n, _, v in (line.partition(":") for line in head[1:] if line)]
        length = int(next((v for n, v in headers if n == "content-length"), "0"))
        call = Call(method, target, headers, await reader.readexactly(length))
        async with self._news:
            self.calls.append(call)
            self._news.notify_all()
        protocol = writer.transport.get_protocol()
        assert isinstance(protocol, _Protocol)
        protocol.call = call
        await self._reply_to(call)(call, writer, len(self.calls))
        protocol.call = None
        call.ended.set()
        return not writer.is_closing()

    def _reply_to(self, call: Call) -> Reply:
        path = call.target.partition("?")[0]
        if path in self._replies:
            return self._replies[path]
        try:
            model = call.json.get("model", "")
        except (ValueError, AttributeError):
            model = ""
        return self._replies.get(str(model), answer)


async def answer(call: Call, writer: asyncio.StreamWriter, serial: int) -> None:
    """A good answer in the shape that is asked for."""
    path = call.target.partition("?")[0]
    if call.method == "GET" and path.endswith("/models"):
        await whole(writer, json.dumps({"object": "list", "data": [{"id": "m", "object": "model"}]}).encode())
        return
    asked = call.json
    if path.endswith("/chat/completions"):
        told: dict[str, Any] = chat(asked, text_for(asked, serial))
    elif path.endswith("/completions"):
        told = completion(asked, f"{asked['prompt']} and so on #{serial}")
    elif path.endswith("/embeddings"):
        told = embeddings(asked)
    else:
        await whole(writer, json.dumps({"echo": asked, "serial": serial}).encode())
        return
    if asked.get("stream"):
        wants_usage = (asked.get("stream_options") or {}).get("include_usage", False)
        await stream(writer, chunks_of(told, usage=wants_usage))
    else:
        await whole(writer, json.dumps(told).encode())


def text_for(asked: dict[str, Any], serial: int) -> str:
    return f"You said {asked['messages'][-1].get('content')!r}. This is call {serial}."


def chat(asked: dict[str, Any], text: str | None, *, finish: str = "stop", calls: Any = None) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
    if calls is not None:
        message["tool_calls"] = calls
    return {
        "id": "chatcmpl-fake",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": asked["model"],
        "system_fingerprint": "fp_fake",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12},
    }


def completion(asked: dict[str, Any], text: str) -> dict[str, Any]:
    return {
        "id": "cmpl-fake",
        "object": "text_completion",
        "created": 1_700_000_000,
        "model": asked["model"],
        "choices": [{"index": 0, "text": text, "logprobs": None, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12},
    }


def chunks_of(told: dict[str, Any], *, usage: bool) -> list[bytes]:
    """The events of an answer, made independently of the product's own projections."""
    common = {k: told[k] for k in ("id", "created", "model", "system_fingerprint") if k in told}
    if told["object"] == "text_completion":
        common["object"] = "text_completion"
        parts = [{"text": t, "logprobs": None, "finish_reason": None} for t in _words(told["choices"][0]["text"])]
        parts.append({"text": "", "logprobs": None, "finish_reason": told["choices"][0]["finish_reason"]})
    else:
        common["object"] = "chat.completion.chunk"
        message = told["choices"][0]["message"]
        opening = "" if message["content"] is not None else None
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": opening, "refusal": None}]
        deltas += [{"content": t} for t in _words(message["content"] or "")]
        for i, call in enumerate(message.get("tool_calls") or ()):
            arguments = call["function"]["arguments"]
            half = len(arguments) // 2
            deltas.append({"tool_calls": [{"index": i, **call, "function": {**call["function"], "arguments": ""}}]})
            deltas += [
                {"tool_calls": [{"index": i, "function": {"arguments": part}}]}
                for part in (arguments[:half], arguments[half:])
            ]
        parts = [{"delta": d, "logprobs": None, "finish_reason": None} for d in deltas]
        parts.append({"delta": {}, "logprobs": None, "finish_reason": told["choices"][0]["finish_reason"]})
    events = [{**common, "choices": [{"index": 0, **part}]} for part in parts]
    if usage:
        events.append({**common, "choices": [], "usage": told["usage"]})
    return [f"data: {json.dumps(event)}\n\n".encode() for event in events] + [b"data: [DONE]\n\n"]


async def whole(
    writer: asyncio.StreamWriter, body: bytes, *, status: int = 200, kind: str = "application/json", more: str = ""
) -> None:
    head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n{more}\r\n"
    writer.write(head.encode("latin-1") + body)
    await writer.drain()


async def stream(writer: asyncio.StreamWriter, events: list[bytes], *, between: Any = None) -> None:
    """A chunked transcript; `between(i)` is awaited before the i-th event."""
    await begin_stream(writer)
    for i, event in enumerate(events):
        if between is not None:
            await between(i)
        await send_chunk(writer, event)
    writer.write(b"0\r\n\r\n")
    await writer.drain()


async def begin_stream(writer: asyncio.StreamWriter, *, more: str = "") -> None:
    writer.write(
        f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n{more}\r\n".encode()
    )
    await writer.drain()


async def send_chunk(writer: asyncio.StreamWriter, event: bytes) -> None:
    writer.write(b"%x\r\n%b\r\n" % (len(event), event))
    await writer.drain()


def _words(text: str) -> list[str]:
    return [word + " " for word in text.split(" ")[:-1]] + text.split(" ")[-1:] if text else []
