"""Runs an application on a socket until it is told to stop, and then lets running answers end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import resource
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn

from foretold.config.settings import Server
from foretold.server.app import App
from foretold.server.crowd import Crowd, door_of
from foretold.server.peek import peeking
from foretold.server.protocol import protocol_with

# Files open beside callers' connections: stores, models, connections to upstreams, and those just closing.
OTHER_FILES = 512

_log = logging.getLogger("foretold")


class QuietServer(uvicorn.Server):
    """uvicorn's server without its own handling of signals: ours must close the node first."""

    on_start: Callable[[], None] = staticmethod(lambda: None)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.on_start()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def connections_of(wanted: int) -> int:
    """How many connections there can be: the limit of open files is raised for them as far as it goes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + door_of(wanted) + OTHER_FILES
    if soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft >= needed:
        return wanted
    possible = max(1, (soft - OTHER_FILES) * 4 // 5 - 16)
    _log.warning(
        "server.connections is %d, but the limit of open files is %d: at most %d; raise it with `ulimit -Hn %d`",
        wanted,
        soft,
        possible,
        needed,
    )
    return possible


def server_for(app: App, settings: Server) -> QuietServer:
    """The server that runs an application with these limits."""
    limited = protocol_with(
        head_timeout_s=settings.head_timeout,
        body_timeout_s=settings.body_timeout,
        keep_alive_s=settings.keep_alive,
        crowd=Crowd(connections_of(settings.connections), write_timeout_s=settings.write_timeout),
    )
    return QuietServer(
        uvicorn.Config(
            app,
            http=peeking(limited, app.front),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=int(settings.drain),
        )
    )


def rested() -> None:
    """What is here now stays for good: collecting it again and again cost a miss up to 80 of its 650 us.

    A query leaves next to nothing in circles, but a collection of the youngest comes only when so many more objects
    were made than given back: at 50,000 of them that was after 190,000 questions, and 8 MiB.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 250, 100)


async def serve(
    server: QuietServer, sock: socket.socket, *, stopping: Callable[[], None], reloading: Callable[[], None]
) -> int:
    """Serves until SIGINT or SIGTERM, a second of which stops at once; the exit code that says which it was.

    `reloading` is called on SIGHUP.
    """
    exit_code = 0

    def stop(number: int) -> None:
        nonlocal exit_code
        server.force_exit = server.should_exit
        server.should_exit = True
        exit_code = 128 + number
        stopping()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    loop.add_signal_handler(signal.SIGHUP, reloading)
    await server.serve(sockets=[sock])
    return exit_code
