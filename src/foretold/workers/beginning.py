"""What a worker is told at its start."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec

from foretold.config import Config, load
from foretold.config.checking import check_reach
from foretold.config.models import ModelSettings
from foretold.models.manifest import Manifest


class Given(msgspec.Struct, frozen=True):
    """What the command line gave instead of the settings."""

    host: str | None = None
    port: int | None = None
    workers: int | None = None


class Running(msgspec.Struct, frozen=True):
    """A model that the parent runs, in the revision that is asked; `which` as its pool calls it."""

    which: str
    settings: ModelSettings
    manifest: Manifest


class Beginning(msgspec.Struct, frozen=True, kw_only=True):
    """`first` are the settings as the node began, `now` as they were last read; both as text, which all workers share.

    `url` is where the node is reached, `workers` how many there are, `models` what the parent runs for them.
    """

    first: str
    now: str
    file: str | None
    given: Given
    url: str
    workers: int
    models: tuple[Running, ...]
    data: str
    logs_queries: bool
    without_disk: bool


def config_of(text: str, file: Path | None, given: Given) -> Config:
    """The checked settings of a text, with what was given instead.  Raises ConfigError."""
    config = load(text, file=file)
    instead = {name: value for name, value in msgspec.structs.asdict(given).items() if value is not None}
    config = dataclasses.replace(config, server=dataclasses.replace(config.server, **instead))
    check_reach(config)
    return config
