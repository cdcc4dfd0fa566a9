"""How much memory processes here may have."""

from __future__ import annotations

import os
from pathlib import Path

from foretold.config.settings import Config

_UNLIMITED = 2**60
_MIB = 2**20


def cgroup_limit(root: Path) -> int | None:
    """Bytes that the memory cgroup of this process, or one above it, allows; None for no limit."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    found: list[int] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            base, name = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            base, name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        here = base / path.lstrip("/")
        # Inside a container the path may be that of the host; the container's own limit is then at the top.
        for folder in [here, *(above for above in here.parents if above.is_relative_to(base))]:
            try:
                text = (folder / name).read_text().strip()
            except OSError:
                continue
            if text.isdigit() and int(text) < _UNLIMITED:
                found.append(int(text))
    return min(found, default=None)


def memory_bytes(root: Path = Path("/")) -> int | None:
    """What the machine has, or less where a cgroup allows less; None where the system doesn't tell."""
    found = [cgroup_limit(root), _total(root)]
    return min((limit for limit in found if limit is not None), default=None)


def pool_bytes(config: Config, root: Path = Path("/")) -> int:
    """What all loaded models may take together: as the settings say, else three quarters of what the machine has."""
    if config.pool.memory is not None:
        return config.pool.memory
    there_bytes = memory_bytes(root)
    return _UNLIMITED if there_bytes is None else there_bytes * 3 // 4 // _MIB * _MIB


def _total(root: Path) -> int | None:
    try:
        lines = dict(line.split(":", 1) for line in (root / "proc/meminfo").read_text().splitlines())
        return int(lines["MemTotal"].split()[0]) * 1024
    except (OSError, ValueError, KeyError):
        return _told_by_the_system() if root == Path("/") else None


def _told_by_the_system() -> int | None:
    """Where there is no /proc."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None
