"""The models that settings name, each with the process that runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from foretold.config.models import ModelSettings
from foretold.config.settings import Config
from foretold.errors import ConfigError
from foretold.models.host import Host
from foretold.models.manifest import SMOLLM2, Manifest
from foretold.models.memory import pool_bytes
from foretold.models.pool import Member, Pool
from foretold.models.process import PROGRAM


class Weights(NamedTuple):
    """A model whose files are here and whole: its promise, as settings limit it, and what its engine is given."""

    manifest: Manifest
    file: Path


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model this node runs: what it is, where its weights must lie, and the process that runs it."""

    settings: ModelSettings
    manifest: Manifest
    host: Host


@dataclass(frozen=True, slots=True)
class LocalModels:
    """All models that this node runs, and the pool that says which of them are in memory."""

    models: tuple[LocalModel, ...]
    pool: Pool


def models_of(config: Config) -> tuple[ModelSettings, ...]:
    """The models to run: those configured, or the bundled one where nothing else could answer."""
    if config.models or config.upstreams:
        return config.models
    return (ModelSettings(name=SMOLLM2.name),)


def limited(manifest: Manifest, settings: ModelSettings) -> Manifest:
    """The model under the name that it has here, with the limits that the settings give instead of its own.

    Raises ConfigError for more context than it was made for.
    """
    context = settings.context or manifest.context
    if settings.context and manifest.trained_context and context > manifest.trained_context:
        raise ConfigError(
            f"models.{settings.name}.context is {context:,}, and the model was made for {manifest.trained_context:,}"
            " tokens: give at most that"
        )
    return manifest.with_settings(
        name=settings.name,
        context=context,
        max_tokens=settings.max_tokens or manifest.max_tokens,
        parallel=1 if settings.reproducible else settings.parallel or manifest.parallel,
    )


def local_models_of(
    config: Config, weights: Mapping[str, Weights], run_folder: Path, *, program: Sequence[str] = PROGRAM
) -> LocalModels:
    """`weights` are theirs by name, verified; `run_folder`, of this user alone, takes their sockets.

    `program` is what Python runs as their engine.

    Raises ModelError, with both numbers, for one that the pool can never hold.
    """
    pool: Pool

    def count_here() -> int:
        return pool.count_here

    models = []
    for settings in models_of(config):
        manifest, file = weights[settings.name]
        host = Host(
            manifest, file, run_folder, program=program, threads=settings.threads or None, count_here=count_here
        )
        models.append(LocalModel(settings, manifest, host))
    pool = Pool((member_of(model, config) for model in models), budget_bytes=pool_bytes(config))
    return LocalModels(tuple(models), pool)


def member_of(model: LocalModel, config: Config) -> Member:
    """What the pool knows of a model.  The bundled one, and an only one, are loaded when the node starts."""
    settings = model.settings
    return Member(
        model.manifest,
        model.host,
        queue=settings.queue,
        keep_alive_s=settings.keep_alive,
        is_pinned=settings.pin,
        starts_first=settings.keep_alive != 0 and (settings.source == "bundled" or len(models_of(config)) == 1),
    )
