"""This machine's folder of models: files by digest, within a limit of bytes, none removed while it is in use.

All nodes and commands of a user share it.  Who uses a blob holds a shared lock on it, who brings or removes one an
exclusive lock on its `.lock` file; the system frees both when their holder dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
from collections.abc import AsyncIterator, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from foretold.errors import LibraryError
from foretold.models.bundled import Tell

BLOB = "sha256-"
_LOOK_EVERY_S = 0.1
COMING, PARTS = ".coming", ".parts"
_UNFINISHED = (COMING, PARTS)


@dataclass(frozen=True, slots=True)
class Held:
    """A blob in the folder; `used_s` is Unix time."""

    path: Path
    size_bytes: int
    used_s: float


class Using:
    """Blobs that are not removed until `close`, or until this process ends."""

    def __init__(self) -> None:
        self._open: dict[Path, int] = {}

    def take(self, blob: Path) -> bool:
        """Whether it is there; from then on it stays."""
        if blob in self._open:
            return True
        try:
            descriptor = os.open(blob, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        except OSError as e:
            os.close(descriptor)
            raise LibraryError(
                f"the folder of models {blob.parent} is on a disk without file locks ({e.strerror}): name another with"
                " FORETOLD_CACHE"
            ) from None
        # It may have been removed between our opening and our lock.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(blob)):
                self._open[blob] = descriptor
                with contextlib.suppress(OSError):  # another user's file may be used all the same
                    os.utime(blob)
                return True
        os.close(descriptor)
        return False

    def taken(self) -> set[Path]:
        return set(self._open)

    def drop(self, blob: Path) -> None:
        """It may be removed again, as far as we are concerned."""
        if blob in self._open:
            os.close(self._open.pop(blob))

    def close(self) -> None:
        for blob in list(self._open):
            self.drop(blob)


class Shelf:
    def __init__(self, folder: Path, *, limit_bytes: int):
        """Makes the folder where there is none.  Raises LibraryError."""
        self.folder = folder
        self.limit_bytes = limit_bytes
        with told(folder):
            folder.mkdir(parents=True, exist_ok=True)

    def blobs(self) -> list[Held]:
        """All that are there, the one used longest ago first."""
        found = []
        for entry in _entries(self.folder):
            if entry.name.startswith(BLOB) and "." not in entry.name:
                with contextlib.suppress(FileNotFoundError):
                    seen = entry.stat()
                    found.append(Held(entry, seen.st_size, seen.st_mtime))
        return sorted(found, key=lambda held: held.used_s)

    def unfinished(self) -> list[Path]:
        """Blobs of which a part is there."""
        return sorted(
            {p.with_suffix("") for p in _entries(self.folder) if p.name.startswith(BLOB) and p.suffix in _UNFINISHED}
        )

    def left_over(self) -> list[Held]:
        """What has come of blobs that nobody is bringing just now."""
        return [self._left_of(blob) for blob in self.unfinished() if not self._is_coming(blob)]

    def is_used(self, blob: Path) -> bool:
        with contextlib.suppress(FileNotFoundError), _alone_with(blob) as is_ours:
            return not is_ours
        return False

    def make_room(self, size_bytes: int, *, keep: Collection[str]) -> list[Path]:
        """What was removed so that so many bytes more stay within the limit; never a blob named in `keep`.

        Files that are just being fetched count as if they were whole; what was left of others goes first.
        Raises LibraryError, with nothing removed, if what is in use or wanted leaves too little.
        """
        others = [self._left_of(blob) for blob in self.unfinished() if blob.name not in keep]
        held = self.blobs()
        taken_bytes = sum(one.size_bytes for one in [*others, *held])
        over_bytes = taken_bytes + size_bytes - self.limit_bytes
        if over_bytes <= 0:
            return []
        free = [one for one in others if not self._is_coming(one.path)]
        free += [one for one in held if one.path.name not in keep and not self.is_used(one.path)]
        stay_bytes = taken_bytes - sum(one.size_bytes for one in free)
        if stay_bytes + size_bytes > self.limit_bytes:
            raise LibraryError(
                f"{_mb(size_bytes)} more are needed in {self.folder}, where {_mb(stay_bytes)} are in use or wanted and"
                f" library.cache_limit is {_mb(self.limit_bytes)}: raise it, or stop what uses them"
            )
        removed: list[Path] = []
        for one in free:
            if over_bytes <= 0:
                break
            if self.drop_unfinished(one.path) if one in others else self.remove(one.path):
                removed.append(one.path)
                over_bytes -= one.size_bytes
        return removed

    def remove(self, blob: Path) -> bool:
        """Removes a blob unless it is in use or on its way; whether it is gone."""
        with _locked_at_once(_lock_of(blob)) as is_ours:
            if not is_ours:
                return False
            with contextlib.suppress(FileNotFoundError), _alone_with(blob) as nobody_else:
                if not nobody_else:
                    return False
                blob.unlink()
            return True

    def drop_unfinished(self, blob: Path) -> bool:
        """Removes what has come of a blob unless somebody is bringing it; whether it is gone."""
        with _locked_at_once(_lock_of(blob)) as is_ours:
            if is_ours:
                for suffix in _UNFINISHED:
                    blob.with_name(blob.name + suffix).unlink(missing_ok=True)
            return is_ours

    def _left_of(self, blob: Path) -> Held:
        """What has come of a blob: a file as long as all of it."""
        coming = blob.with_name(blob.name + COMING)
        with contextlib.suppress(FileNotFoundError):
            seen = coming.stat()
            return Held(blob, seen.st_size, seen.st_mtime)
        return Held(blob, 0, 0.0)

    def _is_coming(self, blob: Path) -> bool:
        with _locked_at_once(_lock_of(blob)) as is_ours:
            return not is_ours

    @contextlib.asynccontextmanager
    async def bringing(self, blob: Path, *, tell: Tell) -> AsyncIterator[None]:
        """Held by one process at a time, for as long as it brings a blob; others wait."""
        with told(self.folder):
            lock = os.open(_lock_of(blob), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            said = False
            while not try_lock(lock):
                if not said:
                    tell.step("waiting for another process that fetches the same file")
                    said = True
                await asyncio.sleep(_LOOK_EVERY_S)
            yield
        finally:
            os.close(lock)


@contextlib.contextmanager
def told(folder: Path) -> Iterator[None]:
    """Around work in the folder: the system's errors in our words.  Raises LibraryError."""
    try:
        yield
    except OSError as e:
        if e.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise LibraryError(
                f"the disk of {folder} is full: make room, for example by `foretold models gc`, or name another folder"
                " with FORETOLD_CACHE"
            ) from None
        raise LibraryError(
            f"the folder of models {folder} can't be used: {e.strerror or e}; FORETOLD_CACHE names another"
        ) from None


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _alone_with(blob: Path) -> Iterator[bool]:
    """Whether nobody uses a blob, and nobody begins to until the end.  Raises FileNotFoundError."""
    descriptor = os.open(blob, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield try_lock(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _locked_at_once(lock: Path) -> Iterator[bool]:
    with told(lock.parent):
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        yield try_lock(descriptor)
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock_of(blob: Path) -> Path:
    return blob.with_name(f"{blob.name}.lock")


def _entries(folder: Path) -> list[Path]:
    with told(folder):
        return list(folder.iterdir())


def _mb(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:,.1f} MB"
