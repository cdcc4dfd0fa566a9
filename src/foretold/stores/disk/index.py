"""What stands in the index, and the transactions on it.

    name                  gone_at_ms 8 · sequence 8 · kind 1 · the blob, or its file's token 16 · length 8
    0xFD                  what all files take 8
    0xFE · token 16       the file's length 8
    0xFF · sequence 8     a name; the oldest first, and at the tree's end, so that it can be appended

One tree: no byte from 0xF8 on begins a name in UTF-8.  (A named database costs each read a second look-up, and is
opened by a write transaction, which waits for a writer that is stopped.)
"""

from __future__ import annotations

from typing import NamedTuple

import lmdb

from foretold.stores.disk.bodies import BLOCK_BYTES, TOKEN_BYTES, taken_bytes
from foretold.stores.disk.opening import Opened
from foretold.stores.disk.pages import Damaged

INLINE, FILE = 0, 1
PREFIX_BYTES = 17

_SUM, _FILES, _ORDER = b"\xfd", b"\xfe", b"\xff"
_EVICTED_AT_ONCE = 64
_LONGEST_NAME = 511
_FILE_ENTRY_BYTES = PREFIX_BYTES + TOKEN_BYTES + 8


class Write(NamedTuple):
    """A put, of a blob or of a file that holds it, or with neither a delete."""

    name: bytes
    blob: bytes | None = None
    gone_at_ms: int = 0
    token: bytes | None = None
    length: int = 0


def file_of(entry: bytes) -> tuple[bytes, int] | None:
    """Token and length of the file that an entry names."""
    if len(entry) != _FILE_ENTRY_BYTES or entry[16] != FILE:
        return None
    return entry[PREFIX_BYTES : PREFIX_BYTES + TOKEN_BYTES], int.from_bytes(entry[-8:], "big")


def apply(opened: Opened, writes: list[Write]) -> list[bytes]:
    """Does all of them or none; the tokens that nothing names any more.  Raises lmdb.Error or Damaged."""
    freed: list[bytes] = []
    with opened.env.begin(write=True) as txn:
        last = _last_sequence(txn)
        grown = 0
        for write in writes:
            before = txn.get(write.name)
            if before is not None:
                txn.delete(_ORDER + before[8:16])
                grown -= _drop_file(txn, before, freed)
            if write.blob is None and write.token is None:
                txn.delete(write.name)
                continue
            last += 1
            sequence = last.to_bytes(8, "big")
            head = write.gone_at_ms.to_bytes(8, "big") + sequence
            if write.token is None:
                entry = b"".join((head, b"\0", write.blob or b""))
            else:
                length = write.length.to_bytes(8, "big")
                entry = b"".join((head, b"\1", write.token, length))
                txn.put(_FILES + write.token, length)
                grown += taken_bytes(write.length)
            txn.put(_ORDER + sequence, write.name, append=True)
            txn.put(write.name, entry)
        _add_to_sum(txn, grown)
    return freed


def evict(opened: Opened, excess_bytes: int) -> list[bytes] | None:
    """Drops some of the oldest in one small transaction: LMDB needs free pages even to delete.

    The tokens that nothing names any more, or None if there was nothing to drop.
    """
    freed: list[bytes] = []
    with opened.env.begin(write=True) as txn, txn.cursor() as cursor:
        if not cursor.set_range(_ORDER):
            return None
        shrunk = taken = 0
        for _ in range(_EVICTED_AT_ONCE):
            name = cursor.value()
            cursor.delete()
            entry = txn.pop(name) if 0 < len(name) <= _LONGEST_NAME else None
            if entry is not None:
                files_bytes = _drop_file(txn, entry, freed)
                shrunk += files_bytes
                taken += files_bytes + len(entry)
            if taken >= excess_bytes or not cursor.set_range(_ORDER):
                break
        _add_to_sum(txn, -shrunk)
    return freed


def held_bytes(opened: Opened) -> int:
    """Bytes of pages in use, and of files: the index itself never shrinks."""
    with opened.env.begin() as txn:
        told = opened.env.stat()
        pages = told["branch_pages"] + told["leaf_pages"] + told["overflow_pages"]
        return int(pages * told["psize"]) + _sum_kept(txn)


def names(opened: Opened) -> list[str]:
    with opened.env.begin() as txn, txn.cursor() as cursor:
        found = []
        for name in cursor.iternext(keys=True, values=False):
            if name >= _SUM:
                break
            found.append(name.decode(errors="replace"))
        return found


def put_bytes(blob_bytes: int, *, is_file: bool) -> int:
    """About what a put will take."""
    return taken_bytes(blob_bytes) if is_file else blob_bytes + BLOCK_BYTES // 8


def is_named(opened: Opened, token: bytes) -> bool:
    """Whether an entry names a file."""
    with opened.env.begin() as txn:
        return txn.get(_FILES + token) is not None


def sum_anew(opened: Opened) -> None:
    """Adds up the files' sizes, and corrects the sum that is kept if it isn't theirs."""
    with opened.env.begin() as txn:
        is_right = _sum_kept(txn) == _sum_of_files(txn)
    if not is_right:
        with opened.env.begin(write=True) as txn:
            txn.put(_SUM, _eight(_sum_of_files(txn)))


def _sum_kept(txn: lmdb.Transaction) -> int:
    return int.from_bytes(txn.get(_SUM, b""), "big")


def _sum_of_files(txn: lmdb.Transaction) -> int:
    total = 0
    with txn.cursor() as cursor:
        if cursor.set_range(_FILES):
            for token, length in cursor.iternext():
                if bytes(token) >= _ORDER:
                    break
                total += taken_bytes(int.from_bytes(length, "big"))
    return total


def _last_sequence(txn: lmdb.Transaction) -> int:
    with txn.cursor() as cursor:
        if not cursor.last() or cursor.key()[:1] != _ORDER:
            return 0
        key = cursor.key()
    if len(key) != 9 or key[1:] == b"\xff" * 8:
        raise Damaged("the last sequence is none")
    return int.from_bytes(key[1:], "big")


def _drop_file(txn: lmdb.Transaction, entry: bytes, freed: list[bytes]) -> int:
    """Takes a replaced or deleted entry's file out of the index; the bytes it took."""
    file = file_of(entry)
    if file is None:
        return 0
    token, length = file
    freed.append(token)
    return taken_bytes(length) if txn.delete(_FILES + token) else 0


def _add_to_sum(txn: lmdb.Transaction, more: int) -> None:
    if more:
        txn.put(_SUM, _eight(_sum_kept(txn) + more))


def _eight(number: int) -> bytes:
    """Within bounds, whatever a damaged length was."""
    return min(max(0, number), 2**63).to_bytes(8, "big")
