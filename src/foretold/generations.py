"""The generations of this machine's tags, in one sealed file (rule G1).

The file is replaced whole, under a lock, and never evicted.  A file that is missing, damaged or sealed by another
secret begins anew with a random `*`, which kills every record: better none than one that was purged.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

import orjson

from foretold.contract.canonical import canonical
from foretold.contract.generations import EVERYTHING
from foretold.datafolder import write_whole
from foretold.errors import StoreError


class FileGenerations:
    def __init__(self, path: Path, secret: bytes):
        self._path = path
        self._secret = secret
        self._table: Mapping[str, str] = {}
        self._change(())

    def now(self) -> Mapping[str, str]:
        return self._table

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
            finally:
                os.close(lock)
        except OSError as e:
            raise StoreError(f"{self._path} can't be written: {e.strerror}") from None
        self._table = MappingProxyType(table)

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


def _seal(table: Mapping[str, str], secret: bytes) -> str:
    return hmac.new(secret, b"generations\n" + canonical(dict(table)), hashlib.sha256).hexdigest()


def _random() -> str:
    return secrets.token_hex(8)
