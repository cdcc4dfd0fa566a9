"""The files of a Worker: its entry and all that it imports, however far.

Workers have no packages here: what isn't a file beside the entry, or part of the runtime, is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from foretold.deploy.plan import MODULE_TYPES, Module
from foretold.errors import ConfigError

# Statements begin a line: what stands indented is a comment, a text or a name that happens to be `from`.
_STATIC = re.compile(r"""^(?:import|export)\b[^'"`;]*?\bfrom\s*(['"])(.+?)\1|^import\s*(['"])(.+?)\3""", re.M)
_DYNAMIC = re.compile(r"""^(?![ \t]*(?:\*|//|/\*)).*?\bimport\(\s*(['"])(.+?)\1\s*\)""", re.M)
_OF_THE_RUNTIME = ("cloudflare:", "node:", "workerd:")


def collect(entry: Path) -> tuple[Module, ...]:
    """The entry first, the others by name.  Raises ConfigError."""
    root = entry.parent.resolve()
    found: dict[str, Module] = {}
    waiting = [(entry.resolve(), "")]
    while waiting:
        path, importer = waiting.pop()
        name = _name(path, root, importer)
        if name in found:
            continue
        kind = _type(path, importer)
        found[name] = Module(name=name, content=_read(path, importer), content_type=kind, file=path)
        if found[name].content_type.startswith("application/javascript"):
            waiting += [(path.parent.joinpath(to).resolve(), name) for to in _imported(found[name])]
    return (found.pop(entry.name), *(found[name] for name in sorted(found)))


def _imported(module: Module) -> Iterator[str]:
    try:
        text = module.content.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{module.name} is not UTF-8 text") from None
    named = [match[2] or match[4] for match in _STATIC.finditer(text)]
    named += [match[2] for match in _DYNAMIC.finditer(text)]
    for name in named:
        if name.startswith("."):
            yield name
        elif not name.startswith(_OF_THE_RUNTIME):
            raise ConfigError(
                f"{module.name} imports {name!r}: a Worker has no packages; bundle it first, or import a file beside it"
            )


def _name(path: Path, root: Path, importer: str) -> str:
    if not path.is_relative_to(root):
        raise ConfigError(f"{importer} imports {path}, which is outside of the entry's folder: move the entry up")
    return path.relative_to(root).as_posix()


def _read(path: Path, importer: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as e:
        whose = f"{importer} imports {path.name!r}, which" if importer else f"the Worker's entry {path}"
        raise ConfigError(f"{whose} can't be read: {e.strerror}") from None


def _type(path: Path, importer: str) -> str:
    known = MODULE_TYPES.get(path.suffix)
    if known is None:
        raise ConfigError(f"{importer or path} imports {path.name!r}: Workers load {', '.join(MODULE_TYPES)} files")
    return known
