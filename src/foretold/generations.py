"""The generations of this machine's tags, in one sealed file (rule G1).

The file is replaced whole, under a lock, and never evicted; each process looks at it again before a table is older than
a quarter of a second, so that a purge by one is known to all.  A file that is missing, damaged or sealed by another
secret begins anew with a random `*`, which kills every record: better none than one that was purged.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

import orjson

from foretold.contract.canonical import canonical
from foretold.contract.generations import EVERYTHING
from foretold.datafolder import write_whole
from foretold.errors import StoreError

LOOK_S = 0.25

_LOST: Mapping[str, str] = MappingProxyType({})


class FileGenerations:
    def __init__(self, path: Path, secret: bytes, *, now_s: Callable[[], float] = time.monotonic):
        self._path = path
        self._secret = secret
        self._now_s = now_s
        self._table: Mapping[str, str] = _LOST
        self._seen: tuple[int, int, int] | None = None
        self._look_at_s = 0.0
        self._change(())

    def now(self) -> Mapping[str, str]:
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
        elif table != self._table:
            self._table, self._seen = MappingProxyType(table), seen
        else:
            self._seen = seen

    async def renew(self, tags: Iterable[str]) -> None:
        self._change(tags)

    def _change(self, tags: Iterable[str]) -> None:
        """Reads the table, renews tags, and writes it back if it is another; processes take turns."""
        try:
            lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                before = self._read()
                table = {EVERYTHING: _random(), **before, **{tag: _random() for tag in tags}}
                if table != before:
                    write_whole(self._path, orjson.dumps({"seal": _seal(table, self._secret), "table": table}))
                self._seen = _seen(self._path)
            finally:
                os.close(lock)
        except OSError as e:
            raise StoreError(f"{self._path} can't be written: {e.strerror}") from None
        self._look_at_s = self._now_s() + LOOK_S
        if table != self._table:
            self._table = MappingProxyType(table)

    def _begin_anew(self) -> None:
        try:
            self._change(())
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
        self._table: Mapping[str, str] = MappingProxyType({EVERYTHING: _random()})

    def now(self) -> Mapping[str, str]:
        return self._table

    def look(self) -> None:
        """Nobody else knows of them."""

    async def renew(self, tags: Iterable[str]) -> None:
        self._table = MappingProxyType({**self._table, **{tag: _random() for tag in tags}})


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


def _random() -> str:
    return secrets.token_hex(8)
