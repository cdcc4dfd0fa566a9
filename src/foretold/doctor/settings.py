"""The settings: which file, whether they are valid, what differs from the defaults, what comes from outside."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator
from typing import Any

from foretold.config import Config
from foretold.config.values import Secret, headers
from foretold.doctor.addresses import without_userinfo
from foretold.doctor.finding import Note, Notes, fault, ok, several, warning
from foretold.doctor.world import World

OWN_VARIABLES = {
    *("FORETOLD_CONFIG", "FORETOLD_HOME", "FORETOLD_CACHE", "FORETOLD_URL"),
    *("FORETOLD_KEY", "FORETOLD_ADMIN_KEY", "FORETOLD_OUTPUT"),
}
_SECRET_VARIABLES = {"FORETOLD_KEY", "FORETOLD_ADMIN_KEY"}
HIDDEN = "(hidden)"


def settings(world: World) -> Notes:
    if world.config is None:
        yield fault(world.why_not, "correct it, then look again with `foretold config check`")
    else:
        where = "no settings file, defaults" if world.file is None else str(world.file)
        counts = {"route": world.config.routes, "upstream": world.config.upstreams, "model": world.config.models}
        told = ", ".join(several(len(things), name) for name, things in counts.items())
        yield ok(f"{where}: valid, nothing unknown; {told}")
        for name, value in differing(world.config):
            yield ok(f"{name} = {value}")
    yield from _environment(world)


def differing(config: Config) -> Iterator[tuple[str, str]]:
    """Name and value of each setting that is not its default; secrets by where they come from."""
    yield from _differing(config, "")


def _environment(world: World) -> Iterator[Note]:
    for name in sorted(n for n in world.environ if n.startswith("FORETOLD_")):
        if name in OWN_VARIABLES:
            value = HIDDEN if name in _SECRET_VARIABLES else without_userinfo(world.environ[name])
            yield ok(f"{name} is set: {value}")
            continue
        near = difflib.get_close_matches(name, OWN_VARIABLES, n=1, cutoff=0.6)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(OWN_VARIABLES))}"
        yield warning(f"{name} is set, and nothing reads it", hint)


def _differing(table: Any, place: str) -> Iterator[tuple[str, str]]:
    for member in dataclasses.fields(table):
        value = getattr(table, member.name)
        name = f"{place}{member.name}"
        if "table" in member.metadata:
            yield from _differing(value, f"{name}.")
        elif "tables" in member.metadata:
            for at, inner in enumerate(value):
                yield from _differing(inner, f"{name}[{getattr(inner, 'name', at)}].")
        elif "read" in member.metadata and value != member.default and member.name != "name":
            yield name, _told(value, member.metadata["read"])


def _told(value: Any, read: Any) -> str:
    """As a settings file has it, without what may be a secret though it stands there in plain."""
    if isinstance(value, Secret):
        return f"{HIDDEN}, from {value.where}"
    if read is headers:
        return ", ".join(f"{name}: {HIDDEN}" for name, _ in value)
    show = getattr(read, "show", str)
    return without_userinfo(", ".join(value) if isinstance(value, tuple) else str(show(value)))
