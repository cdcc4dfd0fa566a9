"""From settings to the parts of a library: which models are meant, where they are, who is trusted."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from foretold.config.models import ModelSettings
from foretold.config.settings import Config, Library
from foretold.errors import ConfigError, ForetoldError, LibraryError
from foretold.models.bundled import Tell
from foretold.models.choices import Choice
from foretold.models.library.access import access_to
from foretold.models.library.address import Address, address_of
from foretold.models.library.bring import Brought, already_here, bring, vouched_here
from foretold.models.library.catalogue import Catalogue
from foretold.models.library.kept import Kept
from foretold.models.library.objects import Store
from foretold.models.library.shelf import Shelf, Using
from foretold.models.library.trust import Trust
from foretold.models.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Place:
    """A model of a library, as settings or a command name it."""

    address: Address
    name: str
    trust: Trust


def place_of(settings: ModelSettings, library: Library, choice: Choice | None = None) -> Place:
    """`choice` is a revision that was promoted where the settings pin none.  Raises ConfigError."""
    trust = Trust(settings.revision, library.trusted)
    if choice is not None:
        trust = Trust("", library.trusted, choice.revision) if choice.is_signed else Trust(choice.revision)
    return Place(address_of(settings.source), settings.model or settings.name, trust)


def shelf_of(config: Config, folder: Path) -> Shelf:
    """Raises LibraryError."""
    return Shelf(folder, limit_bytes=config.library.cache_limit)


def store_at(address: Address, library: Library, environ: Mapping[str, str] = os.environ) -> Store:
    """Raises ConfigError, LibraryError."""
    return Store.of(address, access_to(address, library, environ))


def store_to_fill(address: Address, library: Library) -> Store:
    """As `store_at`; a folder is made where there is none.  Raises ConfigError, LibraryError."""
    if address.scheme == "file":
        try:
            Path(address.root).mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise LibraryError(f"the folder {address.root} can't be made: {e.strerror}") from None
    return store_at(address, library)


def known(settings: ModelSettings, config: Config, folder: Path, choice: Choice | None = None) -> Manifest | None:
    """What was brought before, as its manifest says; None if it never was.  Raises ConfigError, Untrusted."""
    place = place_of(settings, config.library, choice)
    here = vouched_here(Kept(folder), str(place.address), place.name, trust=place.trust)
    return here[0] if here is not None else None


async def newest(settings: ModelSettings, config: Config) -> str:
    """The revision that a model's name stands for in its library now.  Raises ForetoldError."""
    place = place_of(settings, config.library)
    try:
        return await Catalogue(store_at(place.address, config.library)).newest(place.name)
    except LibraryError as e:
        raise type(e)(f"model {settings.name!r} can't be looked up: {e}") from e


async def ready(
    settings: ModelSettings,
    config: Config,
    folder: Path,
    *,
    using: Using,
    tell: Tell,
    accept: Callable[[Manifest], object],
    choice: Choice | None = None,
) -> Brought:
    """A model that this node is to run, here and whole.

    What is here is used without asking its library: a start needs no network, and changes no revision.  `accept`
    raises for a manifest that can't be used here.  Raises ForetoldError.
    """
    place = place_of(settings, config.library, choice)
    shelf = shelf_of(config, folder)
    try:
        here = await asyncio.to_thread(
            already_here, shelf, str(place.address), place.name, trust=place.trust, using=using
        )
        if here is not None:
            accept(here.manifest)
            return here
        store = store_at(place.address, config.library)
        return await bring(shelf, store, place.name, trust=place.trust, using=using, tell=tell, accept=accept)
    except ConfigError:
        raise
    except ForetoldError as e:
        raise type(e)(f"model {settings.name!r} can't be run: {e}") from e
