"""Which revisions were promoted where the settings pin none: kept in the data folder, so that a restart runs them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from foretold.config.models import ModelSettings
from foretold.datafolder import write_whole
from foretold.errors import ModelError


class Choice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A revision of a model of a library.  `is_signed` if a trusted key vouched for it, else whoever promoted it did."""

    source: str
    model: str
    revision: str
    is_signed: bool


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    promoted: dict[str, Choice]


class Choices:
    def __init__(self, file: Path):
        self.file = file

    @property
    def damage(self) -> str | None:
        """Why the file says nothing; None where it is as it should be, or there is none."""
        try:
            self._read()
        except ModelError as e:
            return str(e)
        return None

    def of(self, settings: ModelSettings) -> Choice | None:
        """What was promoted for a model, if it still counts: settings that pin a revision, or name another source, win."""
        if not settings.is_of_a_library or settings.revision:
            return None
        try:
            choice = self._read().get(settings.name)
        except ModelError:
            return None
        if choice is None or (choice.source, choice.model) != (settings.source, settings.model or settings.name):
            return None
        return choice

    def keep(self, name: str, choice: Choice | None) -> None:
        """None forgets what was promoted before.  Raises ModelError if it can't be written."""
        try:
            promoted = self._read()
        except ModelError:
            promoted = {}  # told when the node began
        kept = {other: chosen for other, chosen in promoted.items() if other != name}
        if choice is not None:
            kept[name] = choice
        if kept == promoted:
            return
        try:
            write_whole(self.file, msgspec.json.encode(_Kept(kept)) + b"\n")
        except OSError as e:
            raise ModelError(
                f"which revision was promoted can't be kept in {self.file} ({e.strerror}), so nothing was switched: make"
                " room, or make it writable"
            ) from None

    def _read(self) -> dict[str, Choice]:
        """Raises ModelError for a file that can't be read."""
        try:
            return dict(msgspec.json.decode(self.file.read_bytes(), type=_Kept).promoted)
        except FileNotFoundError:
            return {}
        except OSError as e:
            raise ModelError(f"{self.file}, where promoted revisions are kept, can't be read: {e.strerror}") from None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise ModelError(f"{self.file}, where promoted revisions are kept, is damaged: promote again") from None
