"""The data folder and the room on its disk."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from foretold.assemble import DEFAULT_TIERS
from foretold.config import Config
from foretold.doctor.finding import Notes, fault, ok, size, skipped, warning
from foretold.doctor.world import World


def data_folder(world: World) -> Notes:
    """There, or can be made; ours alone; writable."""
    path = world.data
    if not path.exists():
        yield from _to_be_made(path)
        return
    found = path.stat()
    if not stat.S_ISDIR(found.st_mode):
        yield fault(f"{path} is not a folder", "move it away, or name another with `data` or FORETOLD_HOME")
        return
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        yield fault(
            f"{path} can't be written by this user (it is {_owner(found.st_uid)}'s, mode {_mode(found)})",
            "run as its owner, or name another folder with `data` or FORETOLD_HOME",
        )
        return
    yield ok(f"{path}, mode {_mode(found)}, owner {_owner(found.st_uid)}")
    if found.st_mode & 0o077:
        yield warning(
            f"its mode is {_mode(found)}: answers are personal data, and others on this machine may look in",
            f"chmod 700 {path}",
        )
    if found.st_uid != os.geteuid():
        yield warning(
            f"it belongs to {_owner(found.st_uid)}, and this is {_owner(os.geteuid())}",
            "run the node and its commands as one user",
        )


def room(world: World) -> Notes:
    """Whether the disk tier can grow to its limit, and a largest record fits now."""
    if world.config is None:
        yield skipped("the settings are not valid")
        return
    limit = disk_limit(world.config)
    if limit is None:
        yield skipped("no disk tier")
        return
    free, held = shutil.disk_usage(_nearest(world.data)).free, taken(world.data / "answers")
    yield ok(f"{size(free)} free, {size(held)} taken by answers, which may take {size(limit)}")
    largest = world.config.cache.record_limit
    if free < largest:
        yield fault(f"a largest record takes {size(largest)}: nothing more can be kept", f"make room for {world.data}")
    elif free + held < limit:
        yield warning(
            f"the answers can't grow to their limit: {size(limit - free - held)} are missing",
            f"make room, or set the disk tier's limit to at most {int((free + held) / 2**20)} MiB",
        )


def disk_limit(config: Config) -> int | None:
    return next((tier.limit for tier in config.tiers or DEFAULT_TIERS if tier.store == "disk"), None)


def memory_limit(config: Config) -> int:
    return sum(tier.limit or 0 for tier in config.tiers or DEFAULT_TIERS if tier.store == "memory")


def taken(folder: Path) -> int:
    """Bytes on disk of the files of a folder; a file with holes takes less than it is long."""
    total = 0
    for at, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(at, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return total


def _to_be_made(path: Path) -> Notes:
    above = _nearest(path)
    if above.is_dir() and os.access(above, os.W_OK | os.X_OK):
        yield ok(f"{path} is not there yet: the first `foretold serve` makes it")
    else:
        yield fault(
            f"{path} is not there and can't be made: {above} can't be written by this user",
            "name another folder with `data` or FORETOLD_HOME",
        )


def _nearest(path: Path) -> Path:
    """The path, or the nearest above it that is there."""
    return next(p for p in (path.absolute(), *path.absolute().parents) if p.exists())


def _mode(found: os.stat_result) -> str:
    return f"{stat.S_IMODE(found.st_mode):04o}"


def _owner(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
