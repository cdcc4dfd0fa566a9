"""The disk store: whole, and within its limit.  It is only read, never opened, so a node may run on it."""

from __future__ import annotations

import os

from foretold.doctor import lmdbfile
from foretold.doctor.finding import Notes, fault, ok, size, skipped, warning
from foretold.doctor.folder import disk_limit, taken
from foretold.doctor.world import World


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
            looked = lmdbfile.look(file)
        except lmdbfile.Damaged as e:
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
