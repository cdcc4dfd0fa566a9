"""The models that settings name, each with the process that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from foretold.config.settings import Config, ModelSettings
from foretold.errors import ConfigError
from foretold.models.host import Host
from foretold.models.manifest import SMOLLM2, Manifest


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
        parallel=settings.parallel or manifest.parallel,
    )


def local_models_of(config: Config, weights: Mapping[str, Weights], run_folder: Path) -> tuple[LocalModel, ...]:
    """`weights` are theirs by name, verified; `run_folder`, of this user alone, takes their sockets."""
    models = []
    for settings in models_of(config):
        manifest, file = weights[settings.name]
        models.append(
            LocalModel(settings, manifest, Host(manifest, file, run_folder, threads=settings.threads or None))
        )
    return tuple(models)
