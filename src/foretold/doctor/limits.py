"""What the system allows this process, against what the settings may need."""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator
from pathlib import Path

from foretold.config import Config
from foretold.config.models import ModelSettings
from foretold.doctor.finding import MIB, Note, Notes, fault, ok, size, skipped, warning
from foretold.doctor.folder import disk_limit, memory_limit
from foretold.doctor.world import World
from foretold.errors import ForetoldError
from foretold.models.configured import models_of
from foretold.models.manifest import Manifest
from foretold.models.memory import cgroup_limit, pool_bytes
from foretold.models.room import size_of, together
from foretold.models.weights import known, why_no_room

# Beside connections: the store, sockets of engines, pipes, the event loop's own.
_OTHER_FILES = 64
_NODE_ITSELF = 100 * MIB


def limits(world: World, *, is_running: bool) -> Notes:
    if world.config is None:
        yield skipped("the settings are not valid")
        return
    notes = [*_open_files(world.config), *_file_size(world.config), *_memory(world, world.config, is_running)]
    notes += _pool(world, world.config)
    # What is well in one word; what is not, each for itself.
    yield from [note for note in notes if note.todo] or [ok("; ".join(note.found for note in notes))]


def _open_files(config: Config) -> Iterator[Note]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = config.server.connections + sum(u.connections for u in config.upstreams) + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        yield ok("files enough")
        return
    raised = f"ulimit -n {needed} before it starts, or LimitNOFILE={needed} in its systemd unit"
    if hard not in (resource.RLIM_INFINITY,) and hard < needed:
        raised += f" (root must raise the hard limit of {hard} first)"
    yield warning(
        f"{soft} files may be open, and all the connections that the settings allow need {needed}",
        raised,
        f"or set server.connections to {max(1, soft - needed + config.server.connections)}",
    )


def _file_size(config: Config) -> Iterator[Note]:
    soft, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    limit = disk_limit(config)
    if limit is not None and soft != resource.RLIM_INFINITY and soft < limit:
        yield fault(
            f"a file may have {size(soft)} (ulimit -f), and the answers' own may have {size(limit)}",
            "ulimit -f unlimited before it starts, or a smaller limit of the disk tier",
        )


def _pool(world: World, config: Config) -> Iterator[Note]:
    for told in why_no_room(config, world.models, world.root):
        yield fault(told, "change the settings, then `foretold config check`")


def _memory(world: World, config: Config, is_running: bool) -> Iterator[Note]:
    needed, parts = memory_needed(config, world.models, world.root)
    told = f"at most {size(needed)} of memory are needed ({parts})"
    allowed = cgroup_limit(world.root)
    if allowed is not None and allowed < needed:
        yield warning(
            f"{told}, and the memory cgroup allows {size(allowed)}: beyond it the system ends the node",
            "allow more (docker: --memory, systemd: MemoryMax), or make the memory tier or bodies_together smaller",
        )
    available = _available(world.root)
    if available is not None and not is_running and available < needed:
        yield warning(
            f"{told}, and {size(available)} are available",
            "close other programs, or make the memory tier or bodies_together smaller",
        )
    elif available is not None:
        yield ok(f"memory enough: {size(available)} available, at most {size(needed)} needed")


def memory_needed(config: Config, models_folder: Path, root: Path = Path("/")) -> tuple[int, str]:
    """Bytes at the very most, and what they are for.  A model that is not here yet is not counted: nobody knows it."""
    models = [manifest for settings in models_of(config) if (manifest := _known(settings, config, models_folder))]
    taken = min(together(size_of(manifest) for manifest in models), pool_bytes(config, root))
    parts = {
        "memory tier": memory_limit(config),
        "bodies": config.server.bodies_together,
        "models": taken,
        "the node itself": _NODE_ITSELF * config.server.workers,
    }
    return sum(parts.values()), ", ".join(
        f"{name} {size(count // MIB * MIB)}" for name, count in parts.items() if count
    )


def _known(settings: ModelSettings, config: Config, folder: Path) -> Manifest | None:
    try:
        return known(settings, config, folder)
    except ForetoldError:
        return None  # the check of models tells it


def _available(root: Path) -> int | None:
    try:
        found = re.search(r"^MemAvailable: +(\d+) kB$", (root / "proc/meminfo").read_text(), re.M)
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None
