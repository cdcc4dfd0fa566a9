"""Before a node starts: the weights of all its models, here, whole, and held so that nobody removes them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from foretold.config.models import ModelSettings
from foretold.config.settings import Config
from foretold.errors import ForetoldError, ModelError, Untrusted
from foretold.models import bundled, memory, room
from foretold.models.bundled import Tell
from foretold.models.choices import Choice, Choices
from foretold.models.configured import Weights, limited, models_of, own_manifest
from foretold.models.library import budget, places
from foretold.models.library.shelf import Using
from foretold.models.manifest import SMOLLM2, Manifest


@contextmanager
def held() -> Iterator[Using]:
    """Files of models that nobody removes until the end."""
    using = Using()
    try:
        yield using
    finally:
        using.close()


async def weights_of(
    config: Config, folder: Path, *, using: Using, tell: Tell, choices: Choices | None = None
) -> Mapping[str, Weights]:
    """Those of the models that the settings name, brought where they are missing; `choices` are promoted revisions.

    Raises ForetoldError for the first that can't be had.
    """
    if choices is not None and (damage := choices.damage) is not None:
        tell.step(f"going by the settings alone: {damage}")
    found = {}
    for settings in models_of(config):
        choice = choices.of(settings) if choices is not None else None
        try:
            found[settings.name] = await one_of(settings, config, folder, using=using, tell=tell, choice=choice)
        except Untrusted as e:
            if choice is None:
                raise
            tell.step(f"going by the settings alone: revision {choice.revision[:12]} was promoted, but {e}")
            found[settings.name] = await one_of(settings, config, folder, using=using, tell=tell)
    return found


async def one_of(
    settings: ModelSettings, config: Config, folder: Path, *, using: Using, tell: Tell, choice: Choice | None = None
) -> Weights:
    """Those of one model, in the revision that was chosen, if one was.  Raises ForetoldError."""
    if settings.engine != "gguf":
        return Weights(own_manifest(settings), Path())
    if settings.is_bundled:
        manifest = limited(SMOLLM2, settings)
        # In a thread: a download or a hash must not keep Ctrl-C waiting.
        file = await asyncio.to_thread(bundled.ensure, SMOLLM2, folder, tell=tell)
        using.take(file)
        return Weights(manifest, file)
    brought = await places.ready(
        settings,
        config,
        folder,
        using=using,
        tell=tell,
        accept=partial(check, settings=settings, config=config),
        choice=choice,
    )
    return Weights(limited(brought.manifest, settings), brought.weights)


def known(settings: ModelSettings, config: Config, folder: Path) -> Manifest | None:
    """What a model's manifest promises, where it was brought before; None if it never was.

    Raises ForetoldError for one that may not be run as the settings are.
    """
    if settings.engine != "gguf":
        return own_manifest(settings)
    if settings.is_bundled:
        return limited(SMOLLM2, settings)
    manifest = places.known(settings, config, folder)
    return limited(manifest, settings) if manifest is not None else None


def why_no_room(config: Config, folder: Path, root: Path = Path("/")) -> list[str]:
    """Why models that are here could never be loaded, in a sentence each.  What was never brought nobody knows yet."""
    manifests = []
    for settings in models_of(config):
        with contextlib.suppress(ForetoldError):  # it is told where it is brought, or by `foretold doctor`
            if (manifest := known(settings, config, folder)) is not None:
                manifests.append((manifest, settings.pin))
    return room.refusals(manifests, budget_bytes=memory.pool_bytes(config, root))


def check(manifest: Manifest, *, settings: ModelSettings, config: Config) -> None:
    """Raises ConfigError or ModelError for a model that can't be run here as the settings are."""
    wanted = limited(manifest, settings)
    budget.check_fits(wanted)
    if told := room.refusals([(wanted, settings.pin)], budget_bytes=memory.pool_bytes(config)):
        raise ModelError(told[0])
