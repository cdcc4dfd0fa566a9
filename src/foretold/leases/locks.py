"""Byte locks on a few files: who flies for a key.  The kernel frees them at any death; no clock, no clean-up.

Each process has a slot.  It locks as many bytes at a key's place as its slot's number, and one: all claims meet at the
first byte, and whoever is refused learns from the length who has it.  The locks are those of an open file (OFD), which
other descriptors of the file in the same process leave alone.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
from pathlib import Path

MOST_SLOTS = 1000

_PLACE_BYTES = 1024
# The kernel looks through all locks of a file: with 1,000 in one, a claim took five times as long.
_FILES = 16
_HELD = (errno.EAGAIN, errno.EACCES)
# `struct flock` of 64-bit Linux: type, whence, start, length, process (0 for these locks).
_FLOCK = struct.Struct("@hhqqi4x")


def place_of(key: str) -> int:
    """Where a key's bytes lie.  Two keys may have one place: then they can't be shared at once, and nothing else."""
    return int(key[:12], 16) * _PLACE_BYTES


def can_lock() -> bool:
    return hasattr(fcntl, "F_OFD_SETLK") and struct.calcsize("P") == 8


class Slot:
    """The lowest free number among the processes that have a folder open; held until closed, or death."""

    def __init__(self, folder: Path):
        """Raises OSError."""
        self._file = os.open(folder / "slots", os.O_RDWR | os.O_CREAT, 0o600)
        for number in range(MOST_SLOTS):
            if _lock(self._file, number, 1):
                self.number = number
                return
        os.close(self._file)
        raise OSError(errno.EUSERS, "as many processes as there can be have it open")

    def is_free(self, number: int) -> bool:
        """Whether nobody has a number; asked of our own, it is."""
        return _holder(self._file, number) is None

    def close(self) -> None:
        os.close(self._file)


class Locks:
    def __init__(self, folder: Path, slot: int):
        """Raises OSError."""
        self._files = [os.open(folder / f"{n:x}.locks", os.O_RDWR | os.O_CREAT, 0o600) for n in range(_FILES)]
        self._length = slot + 1

    def take(self, place: int) -> int | None:
        """None once it is ours, else the slot of whoever has it.  Raises OSError."""
        file = self._file_of(place)
        while not _lock(file, place, self._length):
            holder = _holder(file, place)
            if holder is not None:
                return holder - 1
        return None

    def holder(self, place: int) -> int | None:
        """The slot of whoever else has it.  Raises OSError."""
        length = _holder(self._file_of(place), place)
        return None if length is None else length - 1

    def release(self, place: int) -> None:
        with contextlib.suppress(OSError):  # an unlock needs no room; if the file is gone, so is the lock
            told = _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, place, self._length, 0)
            fcntl.fcntl(self._file_of(place), fcntl.F_OFD_SETLK, told)

    def close(self) -> None:
        for file in self._files:
            os.close(file)

    def _file_of(self, place: int) -> int:
        return self._files[place // _PLACE_BYTES % _FILES]


def _lock(file: int, start: int, length: int) -> bool:
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, length, 0))
    except OSError as e:
        if e.errno in _HELD:
            return False
        raise
    return True


def _holder(file: int, start: int) -> int | None:
    """The length of the lock that keeps ours off, if there is one."""
    told = fcntl.fcntl(file, fcntl.F_OFD_GETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, 1, 0))
    kind, _, _, length, _ = _FLOCK.unpack(told)
    return None if kind == fcntl.F_UNLCK else length
