"""What a model of a running node is to be from now on: as its settings are written, in the revision that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from foretold.config.models import ModelSettings
from foretold.config.settings import Config
from foretold.errors import ConfigError, Refused
from foretold.models import weights
from foretold.models.bundled import Tell
from foretold.models.choices import Choice, Choices
from foretold.models.configured import models_of
from foretold.models.library import places
from foretold.models.library.shelf import Using
from foretold.models.manifest import Manifest
from foretold.models.promoting import Wanted


class Renewal:
    """promoting.Brings"""

    def __init__(self, folder: Path, *, using: Using, choices: Choices, read: Callable[[], Config]):
        """`folder` is this machine's of models; `read` gives the settings as they are now written."""
        self._folder = folder
        self._using = using
        self._choices = choices
        self._read = read

    async def wanted(self, name: str, revision: str, tell: Tell) -> Wanted:
        config = self._read()
        settings = next((model for model in models_of(config) if model.name == name), None)
        if settings is None:
            raise ConfigError(f"the settings no longer have [models.{name}]: put it back, or restart the node")
        choice = None
        if not settings.is_of_a_library or settings.revision:
            _check_given(settings, revision)
        elif revision:
            choice = _choice(settings, revision, is_signed=False)
        else:
            tell.step(f"looking for the newest revision of {name} in {settings.source}")
            choice = _choice(settings, await places.newest(settings, config), is_signed=True)
        found = await weights.one_of(settings, config, self._folder, using=self._using, tell=tell, choice=choice)
        return Wanted(settings, found, choice)

    def keep(self, wanted: Wanted) -> None:
        self._choices.keep(wanted.settings.name, wanted.choice)

    def free(self, wanted: Iterable[Manifest]) -> None:
        needed = {self._folder / file.blob for manifest in wanted for file in manifest.files}
        for blob in self._using.taken() - needed:
            self._using.drop(blob)


def _choice(settings: ModelSettings, revision: str, *, is_signed: bool) -> Choice:
    return Choice(settings.source, settings.model or settings.name, revision, is_signed)


def _check_given(settings: ModelSettings, revision: str) -> None:
    """Raises Refused where a command says another thing than the settings."""
    if not revision or revision == settings.revision:
        return
    what = (
        f"is pinned to {settings.revision} in the settings: change `revision` there, then promote it without --revision"
        if settings.revision
        else "comes with this program and has one revision: name a library as its `source` to have others"
    )
    raise Refused(f"model {settings.name!r} {what}", param="revision", code="revision_pinned", status=409)
