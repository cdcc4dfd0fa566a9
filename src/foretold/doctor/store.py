"""The disk store: whole, and within its limit.  It is only read, never opened, so a node may run on it."""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path
from typing import BinaryIO, NamedTuple

from foretold.doctor.finding import Notes, fault, ok, size, skipped, warning
from foretold.doctor.folder import disk_limit, taken
from foretold.doctor.world import World
from foretold.stores.disk.pages import Damaged, Meta, Walk, metas

_TRIES = 5
_WALK_S = 2.0
_HEAD_BYTES = 2 * 32_768


class Looked(NamedTuple):
    """`is_all` is False where there were more pages than we had time for."""

    pages: int
    is_all: bool


def store(world: World) -> Notes:
    folder = world.data / "answers"
    file = folder / "data.mdb"
    limit = disk_limit(world.config) if world.config is not None else None
    if world.config is not None and limit is None:
        yield skipped("no disk tier")
    elif not file.exists():
        yield ok("nothing kept yet")
    elif not os.access(file, os.R_OK | os.W_OK):
        yield fault(f"{file} can't be read and written by this user", "run as the owner of the data folder")
    else:
        held = taken(folder)
        of = "" if limit is None else f" of {size(limit)}"
        try:
            looked = look(file)
        except Damaged as e:
            yield fault(
                f"{file} is damaged: {e}",
                "restart the node: it sets a damaged store aside and begins a new one; or remove the folder "
                f"{folder} while no node runs",
            )
        else:
            if looked is None:
                yield warning("it is written so fast that no state could be looked at", "look again later")
            else:
                read = f"{looked.pages} pages read" + ("" if looked.is_all else ", of more")
                yield ok(f"whole, {size(held)}{of} on disk, {read}")
        if limit is not None and held > limit:
            yield warning(
                f"it takes {size(held)}, and its limit is {size(limit)}: a store's file never shrinks",
                f"stop the node and remove {folder} to begin anew, or raise the limit",
            )
    for aside in sorted(world.data.glob("answers.damaged-*")):
        yield warning(
            f"a damaged store was set aside and takes {size(taken(aside))}", f"remove it when you like: rm -r {aside}"
        )


def look(path: Path) -> Looked | None:
    """Walks the newest commit; None if commits came too fast to look at one.  Raises Damaged or OSError.

    Nothing is locked, so a node may write meanwhile: pages of a commit stay as they are until the next commit but one.
    """
    with path.open("rb") as file:
        for _ in range(_TRIES):
            now = _newest(file)
            try:
                mapped = mmap.mmap(file.fileno(), (now.last_page + 1) * now.page_bytes, prot=mmap.PROT_READ)
                walk = Walk(memoryview(mapped), now)
                is_all = walk.run(time.monotonic() + _WALK_S)
            except Damaged:
                if not _goes_on(file, now):
                    raise
                continue
            if _newest(file).transaction <= now.transaction + 1:
                return Looked(walk.pages, is_all)
    return None


def _newest(file: BinaryIO) -> Meta:
    """Raises Damaged, but not for a root that is being written this moment."""
    for tries_left in reversed(range(_TRIES)):
        try:
            both = metas(os.pread(file.fileno(), _HEAD_BYTES, 0), os.fstat(file.fileno()).st_size)
            return max(both, key=lambda meta: meta.transaction)
        except Damaged:
            if not tries_left:
                raise
    raise AssertionError


def _goes_on(file: BinaryIO, before: Meta) -> bool:
    return _newest(file).transaction > before.transaction
