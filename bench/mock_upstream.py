"""An OpenAI-compatible upstream that answers at once: one fixed completion, whole or as 203 events.

python bench/mock_upstream.py [DELAY_MS [PAUSE_MS]]: before an answer, and between the writes of a streamed one.
`GET /stats` tells how many other requests came: `{"calls": 3}`.  Prints where it listens as one JSON line.
"""

from __future__ import annotations

import asyncio
import json
import sys

import uvloop
from answers import EVENTS, WHOLE

_EVENTS_A_WRITE = 10
_LONGEST_HEAD = 64 * 1024


def _chunk(content: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(content), content)


def _whole(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


_WHOLE = _whole(WHOLE)
_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
# An upstream that does not pause: some events in each write, each event a chunk of its own.
_STREAM_WRITES = [
    b"".join(map(_chunk, EVENTS[at : at + _EVENTS_A_WRITE])) for at in range(0, len(EVENTS), _EVENTS_A_WRITE)
] + [b"0\r\n\r\n"]


class Mock(asyncio.Protocol):
    calls = 0
    delay_s = 0.0
    pause_s = 0.0

    def __init__(self) -> None:
        self._came = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._came += data
        while (request := self._next_request()) is not None:
            self._answer(*request)

    def _next_request(self) -> tuple[bytes, bytes] | None:
        """Head in lower case, and body, of the next request that is whole; only bodies with a length are read."""
        head_bytes = self._came.find(b"\r\n\r\n")
        if head_bytes < 0:
            if len(self._came) > _LONGEST_HEAD:
                self._transport.close()
            return None
        head = self._came[:head_bytes].lower()
        _, named, length = head.partition(b"\r\ncontent-length:")
        end = head_bytes + 4 + (int(length.split(b"\r\n", 1)[0]) if named else 0)
        if len(self._came) < end:
            return None
        body, self._came = self._came[head_bytes + 4 : end], self._came[end:]
        return head, body

    def _answer(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"get /stats "):
            self._transport.write(_whole(json.dumps({"calls": Mock.calls}).encode()))
            return
        Mock.calls += 1
        writes = [_STREAM_HEAD, *_STREAM_WRITES] if b'"stream":true' in body else [_WHOLE]
        if not self.delay_s and not self.pause_s:
            for written in writes:
                self._transport.write(written)
            return
        for at, written in enumerate(writes):
            asyncio.get_running_loop().call_later(self.delay_s + at * self.pause_s, self._transport.write, written)


async def main() -> None:
    Mock.delay_s, Mock.pause_s = (float(ms) / 1000 for ms in (*sys.argv[1:], "0", "0")[:2])
    server = await asyncio.get_running_loop().create_server(Mock, "127.0.0.1", 0, backlog=1024)
    host, port = server.sockets[0].getsockname()
    print(json.dumps({"url": f"http://{host}:{port}"}), flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
