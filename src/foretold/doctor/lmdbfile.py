"""Whether an LMDB file is whole, by plain reads: a damaged file that is mapped can end the process that looks.

The format is that of LMDB 0.9 (data version 1) on 64-bit machines: two meta pages, then B-trees of numbered pages.
Nothing is locked, so a node may write meanwhile: pages of a commit stay as they are until the next commit but one.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

_MAGIC = 0xBEEFC0DE
_DATA_VERSION = 1
_PAGE_HEAD = struct.Struct("=QHHHH")
_META = struct.Struct("=IIQQ48s48sQQ")
_TREE = struct.Struct("=IHHQQQQQ")
_NODE = struct.Struct("=HHHH")
_BRANCH, _LEAF, _OVERFLOW, _META_PAGE = 1, 2, 4, 8
_BIG, _SUBTREE = 1, 2
_EMPTY = 2**64 - 1
_TRIES = 5
MOST_PAGES = 50_000


class Damaged(Exception):
    """What is wrong, in words."""


class Meta(NamedTuple):
    page_bytes: int
    roots: tuple[int, int]
    commit: int


class Looked(NamedTuple):
    """`is_all` is False where there were more pages than we read."""

    pages: int
    is_all: bool


def look(path: Path) -> Looked | None:
    """Walks the newest commit; None if commits came too fast to look at one.  Raises Damaged or OSError."""
    with path.open("rb", buffering=0) as file:
        for _ in range(_TRIES):
            meta = _newest(file)
            try:
                looked = _walk(file, meta)
            except Damaged:
                if _newest(file).commit > meta.commit:
                    continue
                raise
            if _newest(file).commit <= meta.commit + 1:
                return looked
    return None


def _newest(file: BinaryIO) -> Meta:
    first = _meta(file, 0)
    return max(first, _meta(file, first.page_bytes), key=lambda meta: meta.commit)


def _meta(file: BinaryIO, at: int) -> Meta:
    read = os.pread(file.fileno(), _PAGE_HEAD.size + _META.size, at)
    if len(read) < _PAGE_HEAD.size + _META.size:
        raise Damaged(f"it ends after {at + len(read)} bytes, within its head")
    _, _, flags, _, _ = _PAGE_HEAD.unpack_from(read)
    magic, version, _, _, free, main, _, commit = _META.unpack_from(read, _PAGE_HEAD.size)
    if not flags & _META_PAGE or magic != _MAGIC:
        raise Damaged("its head is not that of such a file")
    if version != _DATA_VERSION:
        raise Damaged(f"it has format {version} instead of {_DATA_VERSION}")
    page_bytes = _TREE.unpack(free)[0]
    if page_bytes not in (1 << power for power in range(9, 17)):
        raise Damaged("its head names no size of pages")
    return Meta(page_bytes, (_TREE.unpack(free)[-1], _TREE.unpack(main)[-1]), commit)


def _walk(file: BinaryIO, meta: Meta) -> Looked:
    waiting = [root for root in meta.roots if root != _EMPTY]
    count = 0
    while waiting:
        if count >= MOST_PAGES:
            return Looked(count, is_all=False)
        number = waiting.pop()
        if (number + 1) * meta.page_bytes > os.fstat(file.fileno()).st_size:
            raise Damaged(f"it is cut: page {number} is beyond its end")
        page = os.pread(file.fileno(), meta.page_bytes, number * meta.page_bytes)
        found, _, flags, lower, _ = _PAGE_HEAD.unpack_from(page)
        if found != number or not flags & (_BRANCH | _LEAF | _OVERFLOW):
            raise Damaged(f"page {number} is not what it should be")
        count += 1
        if not flags & _OVERFLOW:
            try:
                waiting.extend(_below(page, lower, is_branch=bool(flags & _BRANCH)))
            except struct.error:
                raise Damaged(f"page {number} holds nonsense") from None
    return Looked(count, is_all=True)


def _below(page: bytes, lower: int, *, is_branch: bool) -> Iterator[int]:
    """The numbers of the pages that a page leads to.  Raises struct.error for nonsense."""
    for at in struct.unpack_from(f"={(lower - _PAGE_HEAD.size) // 2}H", page, _PAGE_HEAD.size):
        low, high, flags, key_bytes = _NODE.unpack_from(page, at)
        if is_branch:
            yield low | high << 16 | flags << 32
        elif flags & _SUBTREE:
            root = _TREE.unpack_from(page, at + _NODE.size + key_bytes)[-1]
            if root != _EMPTY:
                yield root
        elif flags & _BIG:
            yield struct.unpack_from("=Q", page, at + _NODE.size + key_bytes)[0]
