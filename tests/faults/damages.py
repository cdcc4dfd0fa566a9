"""Seeded damage to the data file of a store, of the kinds that disks, crashes and people do."""

from __future__ import annotations

import os
import random
from pathlib import Path

PAGE_BYTES = 4096

KINDS = ("bit", "bits", "zeroed page", "random page header", "random page", "swapped pages", "copied page")


def used_pages(file: Path) -> int:
    """Pages of a data file that hold anything: the rest is a hole."""
    content = file.read_bytes().rstrip(b"\0")
    return -(-len(content) // PAGE_BYTES)


def damage(file: Path, seed: int) -> str:
    """Damages a file in place; what was done."""
    chance = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    pages = used_pages(file)
    content = bytearray(file.read_bytes()[: pages * PAGE_BYTES])

    def page() -> int:
        return chance.randrange(pages) * PAGE_BYTES

    at, other = page(), page()
    if kind in ("bit", "bits"):
        for _ in range(1 if kind == "bit" else 64):
            # Mostly where it hurts: in the first bytes of a page stand its header and its nodes' offsets.
            within = chance.randrange(64) if chance.random() < 0.6 else chance.randrange(PAGE_BYTES)
            content[page() + within] ^= 1 << chance.randrange(8)
    elif kind == "zeroed page":
        content[at : at + PAGE_BYTES] = bytes(PAGE_BYTES)
    elif kind == "random page header":
        content[at + 8 : at + 48] = chance.randbytes(40)
    elif kind == "random page":
        content[at : at + PAGE_BYTES] = chance.randbytes(PAGE_BYTES)
    elif kind == "swapped pages":
        one, two = content[at : at + PAGE_BYTES], content[other : other + PAGE_BYTES]
        content[at : at + PAGE_BYTES], content[other : other + PAGE_BYTES] = two, one
    else:
        content[at : at + PAGE_BYTES] = content[other : other + PAGE_BYTES]
    with file.open("r+b") as opened:
        opened.write(content)
    return kind


def truncate(file: Path, seed: int) -> int:
    """Cuts a file anywhere within what it holds; its new size."""
    size = random.Random(seed).randrange(used_pages(file) * PAGE_BYTES)
    os.truncate(file, size)
    return size
