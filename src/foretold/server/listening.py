"""The socket a node listens on, and who has it if it can't be had."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator
from pathlib import Path

from foretold.errors import ForetoldError


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


def _listening_inodes(port: int) -> Iterator[str]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                columns = line.split()
                if columns[3] == "0A" and int(columns[1].rpartition(":")[2], 16) == port:
                    yield columns[9]
