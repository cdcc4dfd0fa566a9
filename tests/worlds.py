"""A set-up in a folder of its own, as `foretold doctor` sees it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foretold.datafolder import DataFolder
from foretold.doctor.finding import Note, Verdict
from foretold.doctor.world import World, world
from foretold.generations import FileGenerations


class Silent:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def step(self, text: str) -> None:
        self.steps.append(text)

    def progress(self, done_bytes: int, total_bytes: int) -> None: ...


def world_of(
    folder: Path, settings: str | None = None, *, environ: Mapping[str, str] | None = None, **other: Any
) -> World:
    """Settings, data and models lie in `folder`; nothing of the machine's own is looked at but /proc and /sys."""
    file = None
    if settings is not None:
        file = folder / "foretold.toml"
        file.write_text(settings)
    made = world(file, tell=Silent())
    own = {"data": folder / "data", "models": folder / "models", "now_s": time.time()}
    return dataclasses.replace(made, environ=dict(environ or {}), **{**own, **other})


def begun(folder: Path) -> DataFolder:
    """The data folder as a node leaves it after its first start, but for the store."""
    data = DataFolder(folder / "data")
    FileGenerations(data.generations, data.secret())
    data.admin_token()
    return data


def verdict(notes: list[Note]) -> str:
    return max((note.verdict for note in notes), default=Verdict.skipped).name


def text(notes: list[Note]) -> str:
    return "\n".join(line for note in notes for line in (note.found, *note.todo))
