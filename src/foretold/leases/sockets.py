"""The unix sockets of a folder, one for each process that has it open, and who is at their other end."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

# What a unix socket's address holds on every system, less its final NUL.
LONGEST_PATH = 103

_SUFFIX = ".sock"
_CREDENTIALS = struct.Struct("3i")
# As many keys as may be asked for at once; the kernel has a limit of its own, net.core.somaxconn.
_BACKLOG = 4096


class NotOurs(OSError):
    """Another user's."""


class Sockets:
    def __init__(self, folder: Path):
        """Makes the folder where there is none.  Raises OSError, also if it is not this user's alone."""
        folder.mkdir(mode=0o700, exist_ok=True)
        self._folder = folder
        self._open = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        found = os.fstat(self._open)
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            os.close(self._open)
            raise NotOurs(f"{folder} must be yours alone: chmod 700 it")

    def listen(self, slot: int) -> socket.socket:
        """Ours; whatever a dead process left there is replaced."""
        self.remove(slot)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.bind(self._address(slot))
            sock.listen(_BACKLOG)
            sock.setblocking(False)
        except OSError:
            sock.close()
            raise
        return sock

    def connect(self, slot: int) -> socket.socket:
        """At once: the other side need not have noticed yet.  Raises OSError."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.connect(self._address(slot))
            check_peer(sock)
        except OSError:
            sock.close()
            raise
        return sock

    def slots(self) -> Iterator[int]:
        """Of all the sockets that lie there."""
        for name in os.listdir(self._open):
            number, _, suffix = name.partition(".")
            if number.isdecimal() and f".{suffix}" == _SUFFIX:
                yield int(number)

    def remove(self, slot: int) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{slot}{_SUFFIX}", dir_fd=self._open)

    def close(self) -> None:
        os.close(self._open)

    def _address(self, slot: int) -> str:
        path = str(self._folder / f"{slot}{_SUFFIX}")
        if len(os.fsencode(path)) <= LONGEST_PATH:
            return path
        # The same file by a short name, whatever the folder's own.
        return f"/proc/self/fd/{self._open}/{slot}{_SUFFIX}"


def check_peer(sock: socket.socket) -> None:
    """Raises NotOurs unless this user is at the other end."""
    _, uid, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    if uid != os.geteuid():
        raise NotOurs(f"a process of user {uid} is at the other end")
