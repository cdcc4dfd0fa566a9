"""Two nodes side by side, one that peeks and one that does not, fed the same bytes through their own protocols."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from foretold.assemble import assemble
from foretold.config import load
from foretold.datafolder import DataFolder
from foretold.live import Live
from foretold.node import Node
from foretold.server.peek import Peek
from foretold.server.serve import server_for
from tests.integration.odd_requests import Connection

DATE = (b"date", b"Mon, 30 Nov 2026 12:00:00 GMT")


class Line:
    """A transport that keeps what is written; nobody reads slowly here."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.is_closed = False
        self.has_ended = False

    def write(self, data: bytes) -> None:
        if not self.is_closed and not self.has_ended:
            self.written += data

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.has_ended = True

    def writelines(self, lines: Sequence[bytes]) -> None:
        self.write(b"".join(lines))

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def get_extra_info(self, name: str, default: object = None) -> object:
        return default

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...


class Side:
    """One node, and new connections to it."""

    def __init__(self, make: Callable[[], HttpToolsProtocol], state: ServerState, live: Live, node: Node):
        self._make = make
        self._state = state
        self.live = live
        self.counters = node.counters
        self._node = node

    @property
    def tasks(self) -> set[asyncio.Task[None]]:
        return self._state.tasks

    def connect(self) -> tuple[Line, HttpToolsProtocol]:
        line, protocol = Line(), self._make()
        protocol.connection_made(line)  # type: ignore[arg-type]
        return line, protocol

    async def says(self, connection: Connection) -> tuple[bytes, bool]:
        """All that is answered to a connection, and whether it is closed after it."""
        line, protocol = self.connect()
        for pieces in (connection.pieces, connection.last):
            for piece in pieces:
                if line.is_closed or line.has_ended:
                    break  # as with a socket: nothing is read any more
                protocol.data_received(piece)
                await asyncio.sleep(0)
            if connection.leaves and pieces is connection.last:
                protocol.connection_lost(None)
            await self.all_answered()
        is_closed = line.is_closed or line.has_ended
        if not connection.leaves:
            protocol.connection_lost(None)
        return bytes(line.written), is_closed

    async def all_answered(self) -> None:
        """Returns once nobody waits any more, and nothing flies behind a caller's back."""
        async with asyncio.timeout(20):
            while self._state.tasks or len(self._node.flights):
                if self._state.tasks:
                    await asyncio.wait(list(self._state.tasks))
                await asyncio.sleep(0)


@asynccontextmanager
async def side(settings: str, folder: Path, *, peeks: bool, now_ms: Callable[[], int]) -> AsyncIterator[Side]:
    config = load(settings)
    config = dataclasses.replace(config, server=dataclasses.replace(config.server, port=3673))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "secret").write_text("5" * 64 + "\n")
    (folder / "secret").chmod(0o600)
    assembled = assemble(config, DataFolder(folder), weights={}, run_folder=folder, now_ms=now_ms, monotonic_ms=now_ms)
    live = Live(
        config, assembled, base_url="http://127.0.0.1:3673/v1", is_ready=lambda: True, read=lambda: load(settings)
    )
    server = server_for(live.app, config.server)
    server.config.load()
    kind = server.config.http_protocol_class
    assert issubclass(kind, Peek)
    state = server.server_state
    state.default_headers = [DATE]
    if not peeks:
        kind = kind.__bases__[1]  # what it peeks in front of

    def make() -> HttpToolsProtocol:
        made: HttpToolsProtocol = kind(server.config, state, {})
        return made

    try:
        yield Side(make, state, live, assembled.node)
    finally:
        await live.close()
        await assembled.node.close()
