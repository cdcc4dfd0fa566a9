"""Is this LMDB file sound enough to be mapped?  LMDB itself trusts every byte of it.

A wrong value is found above, by seal and digest.  Here it is about what would make the C library read or write outside
its pages: sizes, page numbers, offsets of nodes.  The format is that of LMDB 0.9 (mdb.c: MDB_page, MDB_node, MDB_meta),
in this machine's byte order.
"""

from __future__ import annotations

import struct
import sys
import time
from dataclasses import dataclass

_MAGIC, _VERSION = 0xBEEFC0DE, 1
_NONE = 2**64 - 1
_DEEPEST = 32
_LARGEST_MAP_BYTES = 2**46

_PAGE = struct.Struct("@QHHHH")  # number, padding, flags, lower, upper; of an overflow page the last two are a count
_META = struct.Struct("@IIQQ")  # magic, version, address, map size; then two databases, last page, transaction
_DB = struct.Struct("@IHHQQQQQ")  # padding, flags, depth, branch, leaf and overflow pages, entries, root
_TAIL = struct.Struct("@QQ")
_PAGE_HEADER = _PAGE.size
_NODE_HEADER = 8
META_BYTES = _PAGE_HEADER + _META.size + 2 * _DB.size + _TAIL.size

_BRANCH, _LEAF, _OVERFLOW, _META_PAGE = 1, 2, 4, 8
_BIG = 1


class Damaged(Exception):
    """The file can't be what LMDB wrote; says what is wrong."""


@dataclass(frozen=True, slots=True)
class Tree:
    root: int
    depth: int
    branch_pages: int
    leaf_pages: int


@dataclass(frozen=True, slots=True)
class Meta:
    """One of the two roots of the file: the state after one transaction."""

    page_bytes: int
    map_bytes: int
    free: Tree
    main: Tree
    last_page: int
    transaction: int


def metas(head: bytes, file_bytes: int) -> tuple[Meta, Meta]:
    """Both roots, of the first pages of a file and its size.  Raises Damaged."""
    first = _meta(head, 0, 0)
    second = _meta(head, first.page_bytes, 1)
    if first.page_bytes != second.page_bytes:
        raise Damaged("the two roots name different page sizes")
    for meta in (first, second):
        if (meta.last_page + 1) * meta.page_bytes > file_bytes:
            raise Damaged(f"{file_bytes} bytes are too few for {meta.last_page + 1} pages")
    return first, second


def _meta(head: bytes, at: int, number: int) -> Meta:
    if len(head) < at + META_BYTES:
        raise Damaged("the file ends within its roots")
    page, _, flags, _, _ = _PAGE.unpack_from(head, at)
    magic, version, _, map_bytes = _META.unpack_from(head, at + _PAGE_HEADER)
    if magic != _MAGIC or version != _VERSION:
        raise Damaged("a root has not the mark and version of LMDB 0.9")
    if page != number or not flags & _META_PAGE:
        raise Damaged("a root is not on its page")
    dbs = at + _PAGE_HEADER + _META.size
    page_bytes = _DB.unpack_from(head, dbs)[0]
    last_page, transaction = _TAIL.unpack_from(head, dbs + 2 * _DB.size)
    if page_bytes not in (4096, 8192, 16384, 32768):
        raise Damaged(f"a root names pages of {page_bytes} bytes")
    if not 1 <= last_page < map_bytes // page_bytes or map_bytes > _LARGEST_MAP_BYTES:
        raise Damaged("a root names more pages than its map has")
    if transaction and transaction & 1 != number:
        raise Damaged("a root holds the other's transaction")
    return Meta(
        page_bytes,
        map_bytes,
        _tree(head, dbs),
        _tree(head, dbs + _DB.size),
        last_page=last_page,
        transaction=transaction,
    )


def _tree(page: bytes, at: int) -> Tree:
    _, _, depth, branch_pages, leaf_pages, _, _, root = _DB.unpack_from(page, at)
    if (root == _NONE) != (depth == 0) or depth > _DEEPEST:
        raise Damaged("a tree has a root without a depth, or a depth without a root")
    return Tree(root, depth, branch_pages, leaf_pages)


class Walk:
    """Follows both trees of one transaction, page by page, and looks whether each lies where it says.

    Only pages of trees are read, not the values on pages of their own, but for their heads.  The caller holds a read
    transaction, so that no page changes meanwhile.
    """

    def __init__(self, pages: memoryview, meta: Meta):
        """`pages` is the file, at least up to its last page."""
        self._bytes = pages
        self._words = pages.cast("H")
        self._meta = meta
        self._seen = bytearray(meta.last_page + 1)
        self._seen[0] = self._seen[1] = 1
        self._todo: list[tuple[int, int]] = []  # page, levels left below it
        self._free: list[tuple[int, int]] = []  # where lists of free pages lie, and their length in bytes
        self._in_free = True
        self.pages = 0

    def run(self, until_s: float) -> bool:
        """Whether all was seen before that time (monotonic).  Raises Damaged."""
        if self.pages == 0:
            self._add(self._meta.free)
            if not self._go_on(until_s):
                return False
            self._in_free = False
            self._add(self._meta.main)
        if not self._go_on(until_s):
            return False
        self._check_free()
        return True

    def _go_on(self, until_s: float) -> bool:
        todo = self._todo
        while todo:
            for _ in range(min(len(todo), 64)):
                page, below = todo.pop()
                if below:
                    self._branch(page, below)
                else:
                    self._leaf(page)
            if time.monotonic() > until_s:
                return not todo
        return True

    def _add(self, tree: Tree) -> None:
        if tree.depth:
            self._mark(tree.root, 1)
            self._todo.append((tree.root, tree.depth - 1))

    def _mark(self, page: int, count: int) -> None:
        """Takes pages as used once."""
        end = page + count
        if page < 2 or end > len(self._seen):
            raise Damaged("a page beyond the last is named")
        if any(self._seen[page:end]):
            raise Damaged("a page is named twice")
        self._seen[page:end] = b"\1" * count

    def _nodes(self, page: int, kind: int) -> tuple[int, int, memoryview]:
        """Where a page begins and its nodes may begin, and their offsets."""
        at = page * self._meta.page_bytes
        number, _, flags, lower, upper = _PAGE.unpack_from(self._bytes, at)
        if number != page or flags != kind:
            raise Damaged("a page is not the one that is named")
        if not _PAGE_HEADER <= lower <= upper <= self._meta.page_bytes or lower & 1:
            raise Damaged("a page's bounds are wrong")
        self.pages += 1
        return at, upper, self._words[(at + _PAGE_HEADER) >> 1 : (at + lower) >> 1]

    def _branch(self, page: int, below: int) -> None:
        at, upper, offsets = self._nodes(page, _BRANCH)
        words, end, todo = self._words, self._meta.page_bytes, self._todo
        if len(offsets) < 2:
            raise Damaged("a page of branches has no two")
        room = end - upper
        for offset in offsets:
            if offset < upper or offset & 1 or offset + _NODE_HEADER > end:
                raise Damaged("a node lies outside its page")
            word = (at + offset) >> 1
            child = words[word] | words[word + 1] << 16 | words[word + 2] << 32
            room -= (_NODE_HEADER + words[word + 3] + 1) & ~1
            self._mark(child, 1)
            todo.append((child, below - 1))
        if room:
            raise Damaged("the nodes don't fill their page")

    def _leaf(self, page: int) -> None:
        at, upper, offsets = self._nodes(page, _LEAF)
        words, end = self._words, self._meta.page_bytes
        room = end - upper
        for offset in offsets:
            if offset < upper or offset & 1 or offset + _NODE_HEADER > end:
                raise Damaged("a node lies outside its page")
            word = (at + offset) >> 1
            size = words[word] | words[word + 1] << 16
            flags, key_bytes = words[word + 2], words[word + 3]
            held = 8 if flags == _BIG else size
            taken = (_NODE_HEADER + key_bytes + held + 1) & ~1
            if offset + taken > end:
                raise Damaged("a node lies outside its page")
            room -= taken
            value = at + offset + _NODE_HEADER + key_bytes
            if flags == _BIG:
                value = self._big(value, size)
            elif flags:
                raise Damaged("a node is of a kind that the store never writes")
            if self._in_free:
                self._free.append((value, size))
        if room:
            raise Damaged("the nodes don't fill their page")

    def _big(self, at: int, size: int) -> int:
        """Where a value begins that has pages of its own."""
        page_bytes = self._meta.page_bytes
        page = int.from_bytes(self._bytes[at : at + 8], sys.byteorder)
        count = (_PAGE_HEADER - 1 + size) // page_bytes + 1
        self._mark(page, count)
        number, _, flags, low, high = _PAGE.unpack_from(self._bytes, page * page_bytes)
        if number != page or flags != _OVERFLOW or low | high << 16 != count:
            raise Damaged("a page is not the one that is named")
        return page * page_bytes + _PAGE_HEADER

    def _check_free(self) -> None:
        """No free page may be in use: it would be written over."""
        for at, size in self._free:
            numbers = struct.unpack_from(f"@{size // 8}Q", self._bytes, at)
            if size % 8 or not numbers or numbers[0] != len(numbers) - 1:
                raise Damaged("a list of free pages has a wrong length")
            for page in numbers[1:]:
                self._mark(page, 1)
