"""What the checks look at, gathered once."""

from __future__ import annotations

import os
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from foretold.config import Config, load, load_file
from foretold.datafolder import default_path, models_folder
from foretold.errors import ConfigError


class Tell(Protocol):
    """Who is told how far a long check is."""

    def step(self, text: str) -> None: ...

    def progress(self, done_bytes: int, total_bytes: int) -> None: ...


@dataclass(frozen=True, kw_only=True)
class World:
    """`config` is None where the settings are not valid, and `why_not` says why; `root` is where /proc and /sys are."""

    file: Path | None
    config: Config | None
    why_not: str
    data: Path
    models: Path
    environ: Mapping[str, str]
    now_s: float
    tell: Tell
    root: Path = Path("/")


def world(file: Path | None, *, tell: Tell) -> World:
    """Of this process; `file` are the settings, None for the defaults."""
    config, why_not = None, ""
    try:
        config = load("") if file is None else load_file(file)
    except ConfigError as e:
        why_not = str(e)
    return World(
        file=file,
        config=config,
        why_not=why_not,
        data=_data(file, config),
        models=models_folder(),
        environ=os.environ,
        now_s=time.time(),
        tell=tell,
    )


def _data(file: Path | None, config: Config | None) -> Path:
    """The data folder, also of settings that are not valid but name one."""
    named: object = ""
    if config is not None:
        named = config.data
    elif file is not None:
        try:
            named = tomllib.loads(file.read_text()).get("data")
        except (OSError, ValueError):
            named = ""
    return Path(named).expanduser() if isinstance(named, str) and named else default_path()
