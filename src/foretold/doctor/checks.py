"""All checks in their order: first what others rest on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from foretold.doctor.clock import clock
from foretold.doctor.finding import Finding, Notes, fault, skipped
from foretold.doctor.folder import data_folder, room
from foretold.doctor.limits import limits
from foretold.doctor.models import engine, model_files
from foretold.doctor.port import holder, port, reach
from foretold.doctor.private import admin_token, generations, secret
from foretold.doctor.proxies import proxies
from foretold.doctor.settings import settings
from foretold.doctor.shared import shared_store
from foretold.doctor.store import store
from foretold.doctor.upstreams import visit_all
from foretold.doctor.world import World

OF_THIS_MACHINE: tuple[tuple[str, Callable[[World], Notes]], ...] = (
    ("settings", settings),
    ("data folder", data_folder),
    ("secret", secret),
    ("admin token", admin_token),
    ("generations", generations),
    ("disk store", store),
    ("disk space", room),
    ("shared store", shared_store),
    ("model", model_files),
    ("engine", engine),
    ("reach", reach),
    ("proxies", proxies),
)


def examine(world: World) -> Iterator[Finding]:
    """One finding a check, as each ends.  Contacts the configured upstreams and KV, and the node's own port, nobody else."""
    for name, check in OF_THIS_MACHINE:
        yield _finding(name, check(world))
    held = holder(world)
    yield _finding("port", port(world, held))
    is_running = held is not None and held.version is not None
    yield _finding("limits", limits(world, is_running=is_running))
    visits = visit_all(world.config) if world.config is not None else []
    if world.config is None:
        yield Finding("upstreams", (skipped("the settings are not valid"),))
    yield from (visit.finding for visit in visits)
    yield _finding("clock", clock(world, visits))


def _finding(name: str, notes: Notes) -> Finding:
    """A check that can't read what it must has found that out."""
    try:
        return Finding(name, tuple(notes))
    except OSError as e:
        where = f"{e.filename}: " if e.filename else ""
        return Finding(name, (fault(f"it can't be checked: {where}{e.strerror or e}", "run as the node's own user"),))
