"""Large bodies as files beside the index: `bodies/3f/<writer's id><16 random digits>`.

A file is whole before any entry names it, and its name is never used twice, so that a reader finds the bytes it was
told of or none.  Those that no entry names, left by a process that was killed, are swept at the next start.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path

from foretold.stores.disk.claims import ID_BYTES

TOKEN_BYTES = 2 * ID_BYTES
BLOCK_BYTES = 4096


def taken_bytes(length: int) -> int:
    """What a file of this length takes on the disk."""
    return -(-length // BLOCK_BYTES) * BLOCK_BYTES


def sync_names(folder: Path) -> None:
    """Makes what a folder lists safe on disk.  Raises OSError."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


class Bodies:
    def __init__(self, folder: Path, writer_id: bytes):
        self._folder = folder / "bodies"
        self._writer_id = writer_id

    def write(self, blob: bytes) -> bytes:
        """The token of a new file that holds these bytes, safe on disk but for its folder's entry.  Raises OSError."""
        token = self._writer_id + secrets.token_bytes(TOKEN_BYTES - ID_BYTES)
        path = self._path(token)
        draft = path.with_suffix(".new")
        try:
            file = self._create(draft)
            try:
                _write_all(file, blob)
                os.fsync(file)
            finally:
                os.close(file)
            os.rename(draft, path)
        except OSError:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
            raise
        return token

    def sync(self, tokens: Iterable[bytes]) -> None:
        """Makes the names of new files safe.  Raises OSError."""
        for folder in {self._path(token).parent for token in tokens}:
            sync_names(folder)

    def read(self, token: bytes, length: int) -> bytes | None:
        """The bytes of a file, or None if it isn't there or not of this length.  Raises OSError."""
        try:
            file = os.open(self._path(token), os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        try:
            if os.fstat(file).st_size != length:
                return None
            blob = os.read(file, length)
            while len(blob) < length and (more := os.read(file, length - len(blob))):
                blob += more
        finally:
            os.close(file)
        return blob if len(blob) == length else None

    def remove(self, tokens: Iterable[bytes]) -> None:
        for token in tokens:
            with contextlib.suppress(OSError):  # swept at the next start
                self._path(token).unlink(missing_ok=True)

    def sweep(self, living: set[bytes], is_named: Callable[[bytes], bool]) -> int:
        """Removes the files of dead writers that no entry names; how many."""
        swept = 0
        for path in self._folder.glob("*/*"):
            try:
                token = bytes.fromhex(path.stem)
            except ValueError:
                continue  # nothing of ours
            is_ours = len(token) == TOKEN_BYTES and token[:ID_BYTES] not in living
            if is_ours and (path.suffix or not is_named(token)):
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
                    swept += 1
        return swept

    def _path(self, token: bytes) -> Path:
        """In a folder by its last digits: the first are the writer's."""
        name = token.hex()
        return self._folder / name[-2:] / name

    def _create(self, path: Path) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        try:
            return os.open(path, flags, 0o600)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            sync_names(self._folder)
            sync_names(self._folder.parent)
            return os.open(path, flags, 0o600)


def _write_all(file: int, blob: bytes) -> None:
    rest = memoryview(blob)
    while rest:
        rest = rest[os.write(file, rest) :]
