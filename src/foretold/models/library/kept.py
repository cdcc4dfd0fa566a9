"""The manifests that this machine has accepted, with their signatures, and which of a name came last.

They are looked at again each time, so that a folder that was tampered with runs nothing that is not vouched for now.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from foretold.datafolder import write_whole
from foretold.errors import LibraryError
from foretold.models.library.document import LONGEST, manifest_of
from foretold.models.library.layout import origin_file
from foretold.models.library.shelf import told
from foretold.models.library.trust import key_id
from foretold.models.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Origin:
    """From where a model came, and which revision of it; `is_pinned` if only that one was wanted."""

    address: str
    name: str
    revision: str
    is_pinned: bool = False

    @property
    def file(self) -> str:
        return origin_file(self.address, self.name, self.revision if self.is_pinned else "")


class Kept:
    """In the folder of models."""

    def __init__(self, folder: Path):
        self._manifests = folder / "manifests"
        self._origins = folder / "origins"
        self._split = folder / "split"
        self._folder = folder

    def last(self, address: str, name: str) -> str | None:
        """The revision that came last from there without being pinned."""
        origin = _origin(self._origins / origin_file(address, name, ""))
        return origin.revision if origin is not None and (origin.address, origin.name) == (address, name) else None

    def text(self, revision: str) -> bytes | None:
        try:
            text = (self._manifests / f"{revision}.json").read_bytes()
        except OSError:
            return None
        return text if len(text) <= LONGEST else None

    def signatures(self, revision: str, keys: Sequence[str]) -> dict[str, bytes]:
        found = {}
        for key in keys:
            try:
                found[key] = (self._manifests / f"{revision}.{key_id(key)}.sig").read_bytes()
            except OSError:
                continue
        return found

    def keep(self, origin: Origin, text: bytes, signatures: Mapping[str, bytes]) -> None:
        """Raises LibraryError."""
        with told(self._folder):
            self._manifests.mkdir(exist_ok=True)
            self._origins.mkdir(exist_ok=True)
            write_whole(self._manifests / f"{origin.revision}.json", text)
            for key, signature in signatures.items():
                write_whole(self._manifests / f"{origin.revision}.{key_id(key)}.sig", signature)
            write_whole(self._origins / origin.file, json.dumps(asdict(origin)).encode() + b"\n")

    def origins(self) -> list[Origin]:
        """All that are kept, by name; of one name what came last comes last."""
        files = list(self._origins.glob("*.json")) if self._origins.is_dir() else []
        files.sort(key=_changed_ns)
        found = [origin for file in files if (origin := _origin(file)) is not None]
        return sorted(found, key=lambda origin: origin.name)

    def manifest(self, revision: str) -> Manifest | None:
        """What a revision says, whoever vouches for it; None if it isn't kept or can't be read."""
        text = self.text(revision)
        try:
            return manifest_of(text) if text is not None else None
        except LibraryError:
            return None

    def named_blobs(self) -> set[str]:
        """Those that a manifest which came last names."""
        manifests = [self.manifest(origin.revision) for origin in self.origins()]
        return {file.blob for manifest in manifests if manifest is not None for file in manifest.files}

    def forget(self, name: str) -> list[Origin]:
        """The origins of that name, which are no longer kept."""
        gone = [origin for origin in self.origins() if origin.name == name]
        with told(self._folder):
            for origin in gone:
                (self._origins / origin.file).unlink(missing_ok=True)
        return gone

    def tidy(self, is_used: Callable[[Path], bool]) -> None:
        """Removes manifests that nothing points to any more, and the folders of split models with them.

        A folder whose files are in use stays: an engine that is started again looks for them there.
        """
        wanted = {origin.revision for origin in self.origins()}
        with told(self._folder):
            for file in self._manifests.glob("*") if self._manifests.is_dir() else ():
                if file.name.split(".")[0] not in wanted:
                    file.unlink(missing_ok=True)
            for folder in self._split.glob("*") if self._split.is_dir() else ():
                links = list(folder.iterdir()) if folder.name not in wanted else []
                if folder.name in wanted or any(is_used(link.resolve()) for link in links):
                    continue
                for link in links:
                    link.unlink(missing_ok=True)
                folder.rmdir()

    def weights(self, revision: str, manifest: Manifest) -> Path:
        """The file to give to the engine: the blob itself, or the first of a split model's parts by its own name.

        The engine finds the other parts by the names beside the first, so they lie there as links.
        """
        if len(manifest.files) == 1:
            return self._folder / manifest.files[0].blob
        folder = self._split / revision
        with told(self._folder):
            folder.mkdir(parents=True, exist_ok=True)
            for file in manifest.files:
                link, target = folder / file.name, Path("..", "..", file.blob)
                if not link.is_symlink() or link.readlink() != target:
                    link.unlink(missing_ok=True)
                    with contextlib.suppress(FileExistsError):  # another process made the same one
                        link.symlink_to(target)
        return folder / manifest.files[0].name


def signature_text(key: str, signature: bytes) -> bytes:
    """A signature as it is stored."""
    return json.dumps({"key": key, "signature": base64.b64encode(signature).decode()}, sort_keys=True).encode() + b"\n"


def signature_of(text: bytes, key: str) -> bytes | None:
    """A stored signature, if it is one of that key."""
    try:
        told_signature: Any = json.loads(text)
        if told_signature["key"] == key:
            return base64.b64decode(told_signature["signature"], validate=True)
    except (ValueError, KeyError, TypeError, binascii.Error, RecursionError):
        pass
    return None


def _changed_ns(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _origin(file: Path) -> Origin | None:
    try:
        read = json.loads(file.read_bytes())
        origin = Origin(read["address"], read["name"], read["revision"], bool(read["is_pinned"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return origin if all(isinstance(value, str) for value in (origin.address, origin.name, origin.revision)) else None
