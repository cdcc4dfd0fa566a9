"""Runs an application on a socket until it is told to stop, and then lets running answers end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import uvicorn

from foretold.config.settings import Server
from foretold.errors import ForetoldError
from foretold.server.app import App
from foretold.server.crowd import Crowd, door_of
from foretold.server.peek import peeking
from foretold.server.protocol import protocol_with

# Files open beside callers' connections: stores, models, connections to upstreams, and those just closing.
OTHER_FILES = 512

_log = logging.getLogger("foretold")


class PortTaken(ForetoldError):
    code = "port_taken"
    exit_code = 7


def bind(host: str, port: int) -> socket.socket:
    """A listening socket.  Raises PortTaken, naming who holds the port where that can be seen."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named: asyncio turns Nagle off only for what says that it is TCP.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host.strip("[]"), port))
        sock.listen(2048)
    except OSError as e:
        sock.close()
        holder = holder_of(port)
        by = f" by {holder}" if holder else ""
        if e.errno == errno.EADDRINUSE:
            raise PortTaken(f"port {port} on {host} is taken{by}: choose another with --port, or --port 0") from None
        raise PortTaken(f"can't listen on {host} port {port}: {e.strerror}") from None
    sock.setblocking(False)
    return sock


def holder_of(port: int) -> str | None:
    """The program that listens on a port and its process number, as /proc shows them to us."""
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(str(link.readlink()) in sockets for link in (process / "fd").iterdir()):
                return f"`{(process / 'comm').read_text().strip()}` (pid {process.name})"
    return None


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


def _listening_inodes(port: int) -> Iterator[str]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                columns = line.split()
                if columns[3] == "0A" and int(columns[1].rpartition(":")[2], 16) == port:
                    yield columns[9]
