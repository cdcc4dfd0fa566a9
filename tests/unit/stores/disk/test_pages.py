"""What LMDB wrote passes; each thing that would lead its C code out of its pages is found."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from foretold.stores.disk.pages import Damaged, Meta, Walk, metas

PAGE = 4096
BRANCH, LEAF, OVERFLOW = 1, 2, 4


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A data file with branches, leaves, values on pages of their own, and lists of free pages."""
    folder: Path = tmp_path_factory.mktemp("store")
    with lmdb.open(str(folder), map_size=16 * 2**20) as env:
        for turn in range(6):
            with env.begin(write=True) as txn:
                for number in range(turn * 300, turn * 300 + 400):
                    txn.put(b"%064d" % number, b"x" * (50 + number * 7 % 6000))
                for number in range(0, turn * 200, 3):
                    txn.delete(b"%064d" % number)
    return (folder / "data.mdb").read_bytes()


def newest(content: bytes) -> Meta:
    return max(metas(content[: 2 * 32_768], len(content)), key=lambda meta: meta.transaction)


def walk(content: bytes) -> int:
    """Pages of trees that were seen."""
    walk = Walk(memoryview(content), newest(content))
    assert walk.run(time.monotonic() + 60)
    return walk.pages


def pages(content: bytes, flags: int) -> list[int]:
    """Where the pages in use of a kind begin: those that are reached from the newest root."""
    found, meta = [], newest(content)
    todo = [tree.root for tree in (meta.free, meta.main) if tree.depth]
    while todo:
        at = todo.pop() * PAGE
        kind, lower = struct.unpack_from("@10xHH", content, at)
        if kind == flags:
            found.append(at)
        for offset in struct.unpack_from(f"@{(lower - 16) // 2}H", content, at + 16):
            low, high, more, key = struct.unpack_from("@HHHH", content, at + offset)
            if kind == BRANCH:
                todo.append(low | high << 16 | more << 32)
            elif more == 1 and flags == OVERFLOW:
                found.append(struct.unpack_from("@Q", content, at + offset + 8 + key)[0] * PAGE)
    return found


def test_what_lmdb_wrote_passes_page_by_page(written):
    meta = newest(written)

    seen = walk(written)

    assert meta.page_bytes == PAGE
    assert seen == sum(tree.branch_pages + tree.leaf_pages for tree in (meta.free, meta.main))
    assert pages(written, BRANCH)
    assert pages(written, OVERFLOW)


def test_a_walk_that_ran_out_of_time_goes_on_where_it_was(written):
    walked = Walk(memoryview(written), newest(written))

    first = walked.run(time.monotonic() - 1)
    turns = 1
    while not walked.run(time.monotonic() - 1):
        turns += 1

    assert first is False
    assert turns > 1
    assert walked.pages == walk(written)


HARMS: dict[str, tuple[int, Callable[[bytearray, int], None]]] = {
    "another page's number": (LEAF, lambda c, at: struct.pack_into("@Q", c, at, 7)),
    "another kind": (LEAF, lambda c, at: struct.pack_into("@H", c, at + 10, BRANCH)),
    "no kind": (BRANCH, lambda c, at: struct.pack_into("@H", c, at + 10, 0)),
    "more nodes than fit": (LEAF, lambda c, at: struct.pack_into("@H", c, at + 12, 0xFFFE)),
    "bounds that cross": (LEAF, lambda c, at: struct.pack_into("@H", c, at + 14, 16)),
    "room that begins beyond the page": (LEAF, lambda c, at: struct.pack_into("@H", c, at + 14, PAGE + 2)),
    "a node beyond the page": (LEAF, lambda c, at: struct.pack_into("@H", c, at + 16, 0xFFF0)),
    "a node in the header": (LEAF, lambda c, at: struct.pack_into("@H", c, at + 16, 2)),
    "a longer key": (LEAF, lambda c, at: lengthen(c, at, 6)),
    "a longer value": (LEAF, lambda c, at: lengthen(c, at, 2)),
    "an unknown kind of node": (LEAF, lambda c, at: lengthen(c, at, 4, 8)),
    "a child beyond the last page": (BRANCH, lambda c, at: lengthen(c, at, 2, 0x7F)),
    "a child that is another's": (BRANCH, lambda c, at: second_child_is_the_first(c, at)),
    "fewer pages of a value": (OVERFLOW, lambda c, at: struct.pack_into("@I", c, at + 12, 0)),
    "no page of a value": (OVERFLOW, lambda c, at: struct.pack_into("@H", c, at + 10, LEAF)),
    "zeros": (LEAF, lambda c, at: c.__setitem__(slice(at, at + PAGE), bytes(PAGE))),
}


def lengthen(content: bytearray, page: int, within: int, value: int = 1) -> None:
    """Sets bits in the header of a page's last node."""
    lower = struct.unpack_from("@H", content, page + 12)[0]
    at = page + struct.unpack_from("@H", content, page + lower - 2)[0] + within
    struct.pack_into("@H", content, at, struct.unpack_from("@H", content, at)[0] ^ value << 3)


def second_child_is_the_first(content: bytearray, page: int) -> None:
    first, second = struct.unpack_from("@2H", content, page + 16)
    content[page + second : page + second + 6] = content[page + first : page + first + 6]


@pytest.mark.parametrize("harm", HARMS)
def test_a_page_that_would_lead_out_of_its_bounds_is_found(written, harm):
    kind, harms = HARMS[harm]
    content = bytearray(written)
    harms(content, pages(written, kind)[-1])

    with pytest.raises(Damaged):
        walk(bytes(content))


def test_a_free_page_that_is_in_use_is_found(written):
    """It would be written over."""
    content = bytearray(written)
    meta = newest(written)
    at = meta.free.root * PAGE
    offset = struct.unpack_from("@H", content, at + 16)[0]
    value = at + offset + 8 + 8
    struct.pack_into("@Q", content, value + 8, meta.main.root)

    with pytest.raises(Damaged, match="twice"):
        walk(bytes(content))


@pytest.mark.parametrize(
    ("at", "value", "says"),
    [
        (16, b"\0", "mark"),
        (20, b"\2", "mark"),
        (0, b"\1", "not on its page"),
        (10, b"\0", "not on its page"),
        (40, b"\1", "bytes"),
        (128, b"\xff" * 8, "depth"),
        (136, b"\xff" * 7, "more pages"),
    ],
)
def test_a_root_that_is_none_is_found(written, at, value, says):
    content = bytearray(written)
    content[at : at + len(value)] = value

    with pytest.raises(Damaged, match=says):
        metas(bytes(content[: 2 * 32_768]), len(content))


def test_a_file_shorter_than_its_roots_say_is_found(written):
    last = max(meta.last_page for meta in metas(written[: 2 * 32_768], len(written)))

    metas(written[: 2 * 32_768], (last + 1) * PAGE)
    with pytest.raises(Damaged, match="too few"):
        metas(written[: 2 * 32_768], (last + 1) * PAGE - 1)
