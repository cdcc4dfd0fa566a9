"""The models that settings name, each with the process that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from foretold.config.settings import Config, ModelSettings
from foretold.models.host import Host
from foretold.models.manifest import SMOLLM2, Manifest


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


def manifest_of(settings: ModelSettings) -> Manifest:
    return SMOLLM2.with_settings(
        name=settings.name, context=settings.context, max_tokens=settings.max_tokens, parallel=settings.parallel
    )


def local_models_of(config: Config, files: Mapping[str, Path], run_folder: Path) -> tuple[LocalModel, ...]:
    """`files` are their verified weights; `run_folder`, of this user alone, takes their sockets."""
    models = []
    for settings in models_of(config):
        manifest = manifest_of(settings)
        host = Host(manifest, files[settings.name], run_folder, threads=settings.threads or None)
        models.append(LocalModel(settings, manifest, host))
    return tuple(models)
