"""What a Worker is made of on disk, and whether it changed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from foretold.deploy.modules import collect
from foretold.errors import EdgeError

Stamps = Mapping[Path, tuple[int, int] | None]


def stamps(paths: Iterable[Path]) -> Stamps:
    """By path when it was last written and how long it is; None for what isn't there."""
    return {path: _stamp(path) for path in paths}


def files_of(entry: Path) -> tuple[Path, ...]:
    """All that a Worker reaches.  Raises ConfigError, naming what is missing."""
    return tuple(module.file for module in collect(entry) if module.file is not None)


def changed(before: Stamps, now: Stamps) -> tuple[Path, ...]:
    return tuple(path for path, stamp in now.items() if before.get(path) != stamp)


def check(path: Path, *, node: str) -> None:
    """Raises EdgeError where a script can't be parsed, naming the line."""
    if path.suffix not in (".js", ".mjs"):
        return
    try:
        content = path.read_bytes()
    except OSError as e:
        raise EdgeError(f"{path.name} can't be read: {e.strerror}") from None
    words = [node, "--input-type=module", "--check"]
    checked = subprocess.run(words, input=content, capture_output=True, timeout=60)  # noqa: S603
    if checked.returncode == 0:
        return
    said = checked.stderr.decode(errors="replace").splitlines()
    line = next((text.rpartition(":")[2] for text in said if text.rpartition(":")[2].isdigit()), "?")
    error = next((text for text in said if "Error: " in text), "it can't be parsed")
    raise EdgeError(f"{path.name}:{line}: {error}")


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        told = path.stat()
    except OSError:
        return None
    return told.st_mtime_ns, told.st_size
