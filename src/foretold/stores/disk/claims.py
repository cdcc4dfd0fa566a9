"""Each process that has a store open holds a file in its folder, locked for as long as it lives.

Two things are read from it.  Whether its owner lives: body files of the dead that no entry names are orphans.  And
whether its owner died within the store: LMDB trusts its pages, so what the checks at open can't see may still end in
SIGSEGV or SIGBUS; then the interpreter writes here where it was, and the next start sets the store aside instead of
dying the same way.
"""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

ID_BYTES = 8

_PREFIX = "writer-"
_OURS = "/stores/disk/"

# The interpreter has one such file for the whole process: that of the store opened last.
_watching: list[Claim] = []


class Claim:
    def __init__(self, folder: Path):
        """Raises OSError."""
        self.id = secrets.token_bytes(ID_BYTES)
        self._path = folder / f"{_PREFIX}{self.id.hex()}"
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            self._path.unlink(missing_ok=True)
            raise
        # Somebody else's choice (python -X faulthandler) stays.
        if _watching or not faulthandler.is_enabled():
            faulthandler.enable(self._file, all_threads=False)
            _watching.append(self)

    def release(self) -> None:
        if self in _watching:
            is_last = _watching[-1] is self
            _watching.remove(self)
            if is_last and _watching:
                faulthandler.enable(_watching[-1]._file, all_threads=False)
            elif is_last:
                faulthandler.disable()
        # The folder may be gone or renamed by now.
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
        os.close(self._file)


def living(folder: Path) -> set[bytes]:
    """The ids of those that have the store open."""
    return {id for id, text in _claims(folder) if text is None}


def died_within(folder: Path) -> bool:
    """Whether a process died in the store's own code since this was last asked; forgets the dead."""
    found = False
    for id, text in _claims(folder):
        if text is not None:
            found = found or _is_ours(text)
            with contextlib.suppress(OSError):  # on a disk that can't be written
                (folder / f"{_PREFIX}{id.hex()}").unlink(missing_ok=True)
    return found


def _claims(folder: Path) -> Iterator[tuple[bytes, str | None]]:
    """Ids, with None for the living and what the dead left."""
    for path in folder.glob(f"{_PREFIX}*"):
        try:
            id = bytes.fromhex(path.name.removeprefix(_PREFIX))
            with path.open("rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except OSError:
                    yield id, None
                else:
                    yield id, file.read(65_536).decode(errors="replace")
        except (ValueError, OSError):
            continue  # no claim, or gone meanwhile


def _is_ours(text: str) -> bool:
    """Whether the innermost call of a crash was one of the store's.

    A note that breaks off before any call counts as such: then a second thread died of the same while it was written.
    """
    innermost = next((line for line in text.splitlines() if line.lstrip().startswith('File "')), None)
    return bool(text) if innermost is None else _OURS in innermost
