"""The generations of this machine's tags, in one sealed file (rule G1).

The file is replaced whole, under a lock, and never evicted; each process looks at it again before a table is older than
a quarter of a second, so that a purge by one is known to all.  A file that is missing, damaged or sealed by another
secret begins anew with a random `*`, which kills every record: better none than one that was purged.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import hmac
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import orjson

from foretold.contract.canonical import canonical
from foretold.contract.generations import EVERYTHING
from foretold.datafolder import Spare, write_whole
from foretold.errors import StoreError
from foretold.ports import Table

LOOK_S = 0.25

# So long a purge waits for its turn.
PATIENCE_S = 2.0

Change = Callable[[dict[str, str]], dict[str, str]]

_AGAIN_S = 0.01
_LOST = Table({})
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class FileGenerations:
    def __init__(self, path: Path, secret: bytes, *, now_s: Callable[[], float] = time.monotonic):
        """Raises StoreError."""
        self._path = path
        self._secret = secret
        self._spare = Spare(path.with_suffix(".spare"))
        self._now_s = now_s
        self._table = _LOST
        self._seen: tuple[int, int, int] | None = None
        self._look_at_s = 0.0
        self._turn = threading.Lock()
        self._take(*self._changed(_with_everything, patience_s=PATIENCE_S))

    def now(self) -> Table:
        if self._now_s() >= self._look_at_s:
            self.look()
        return self._table

    def look(self) -> None:
        """Takes over what another process has written.  While the file can't be read, every record is dead."""
        self._look_at_s = self._now_s() + LOOK_S
        try:
            seen = _seen(self._path)
            if seen == self._seen:
                return
            table = sealed_table(self._path, self._secret)
        except FileNotFoundError:
            table = None
        except OSError:
            self._table, self._seen = _LOST, None
            return
        if table is None:
            self._begin_anew()
        else:
            self._take(table, seen)

    async def renew(self, tags: Iterable[str]) -> None:
        """In a thread: the disk, or another process that has its turn, may take its time."""
        fresh = {tag: new_generation() for tag in tags}
        await self.change(lambda table: {**table, **fresh})

    async def open(self) -> None:
        """All processes of the data folder look at the file themselves."""

    async def close(self) -> None:
        """Nothing is held open."""

    async def change(self, change: Change) -> None:
        """Replaces the table by what a pure function makes of it, whole, on disk when this returns.  Raises StoreError."""
        await asyncio.to_thread(self._changed, change, patience_s=PATIENCE_S)
        # Not what the thread gave: another process may have written since, and its purge must not be undone.
        self.look()

    def _take(self, table: Mapping[str, str], seen: tuple[int, int, int]) -> None:
        self._seen = seen
        if table != self._table:
            self._table = Table(table)

    def _changed(self, change: Change, *, patience_s: float) -> tuple[Mapping[str, str], tuple[int, int, int]]:
        """The changed table, written down; processes take turns.  Raises StoreError."""
        try:
            lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
            try:
                with self._turn:
                    self._lock(lock, patience_s=patience_s)
                    before = self._read()
                    table = _with_everything(change(_with_everything(before)))
                    if table != before:
                        self._write(orjson.dumps({"seal": _seal(table, self._secret), "table": table}))
                    self._spare.hold()
                    return table, _seen(self._path)
            finally:
                os.close(lock)
        except OSError as e:
            raise StoreError(f"{self._path} can't be written: {e.strerror}") from None

    def _write(self, content: bytes) -> None:
        """On a full disk too: what was purged must stay so.  Raises OSError."""
        try:
            write_whole(self._path, content)
        except OSError as e:
            if e.errno not in _FULL or not self._spare.give():
                raise
            write_whole(self._path, content)

    def _lock(self, lock: int, *, patience_s: float) -> None:
        until_s = time.monotonic() + patience_s
        while True:
            try:
                return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= until_s:
                    raise StoreError(f"another process has locked {self._path.with_suffix('.lock')}") from None
                time.sleep(_AGAIN_S)

    def _begin_anew(self) -> None:
        try:
            self._take(*self._changed(_with_everything, patience_s=0))
        except StoreError:
            self._table, self._seen = _LOST, None

    def _read(self) -> dict[str, str]:
        try:
            return sealed_table(self._path, self._secret) or {}
        except FileNotFoundError:
            return {}


class MemoryGenerations:
    """Generations of a node that keeps nothing: all tags begin anew with each start."""

    def __init__(self) -> None:
        self._table = Table({EVERYTHING: new_generation()})

    def now(self) -> Table:
        return self._table

    def look(self) -> None:
        """Nobody else knows of them."""

    async def renew(self, tags: Iterable[str]) -> None:
        self._table = Table({**self._table, **{tag: new_generation() for tag in tags}})

    async def open(self) -> None:
        """Nobody else knows of them."""

    async def close(self) -> None:
        """Nothing is held open."""


def sealed_table(path: Path, secret: bytes) -> dict[str, str] | None:
    """The table of a file, None if it is damaged or sealed by another secret.  Raises OSError."""
    try:
        kept = orjson.loads(path.read_bytes())
        table: dict[str, str] = kept["table"]
        sound = hmac.compare_digest(kept["seal"], _seal(table, secret))
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    return table if sound else None


def _seen(path: Path) -> tuple[int, int, int]:
    """What is another after each replacement of a file.  Raises OSError."""
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


def _seal(table: Mapping[str, str], secret: bytes) -> str:
    return hmac.new(secret, b"generations\n" + canonical(dict(table)), hashlib.sha256).hexdigest()


def _with_everything(table: dict[str, str]) -> dict[str, str]:
    return {EVERYTHING: new_generation(), **table}


def new_generation() -> str:
    return secrets.token_hex(8)
