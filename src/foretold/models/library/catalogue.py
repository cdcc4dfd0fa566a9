"""What a library has: names, their revisions, manifests and signatures."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from foretold.errors import LibraryError, NotInLibrary
from foretold.models.library import layout
from foretold.models.library.document import LONGEST, check_name, manifest_of, revision_of
from foretold.models.library.kept import signature_of, signature_text
from foretold.models.library.objects import Store
from foretold.models.manifest import Manifest

_POINTER_BYTES = 4096
_SIGNATURE_BYTES = 4096
_REVISION = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Found:
    """A manifest as it lies there, and the signatures of those keys that were asked for."""

    name: str
    revision: str
    text: bytes
    signatures: dict[str, bytes]


class Catalogue:
    def __init__(self, store: Store):
        self._store = store

    async def names(self) -> list[str]:
        """All models there, in order."""
        found = await self._store.under(layout.NAMES)
        names = [seen.key.removeprefix(layout.NAMES) for seen in found]
        return sorted(name.removesuffix(".json") for name in names if name.endswith(".json"))

    async def newest(self, name: str) -> str:
        """The revision that a name stands for now.  Raises NotInLibrary, LibraryError."""
        text = await self._store.read(layout.name_key(check_name(name)), most_bytes=_POINTER_BYTES)
        if text is None:
            raise NotInLibrary(
                f"{self._store} has no model {name!r}: `foretold models list {self._store}` shows what it has"
            )
        try:
            revision = json.loads(text)["revision"]
        except (ValueError, KeyError, TypeError, RecursionError):
            revision = None
        if not isinstance(revision, str) or not _REVISION.fullmatch(revision):
            raise LibraryError(f"{layout.name_key(name)} in {self._store} names no revision: push the model anew")
        return revision

    async def find(self, name: str, *, revision: str = "", keys: Sequence[str] = ()) -> Found:
        """A revision, by default the newest.  Raises NotInLibrary, or LibraryError if it isn't what its name says."""
        revision = revision or await self.newest(name)
        key = layout.manifest_key(check_name(name), revision)
        text = await self._store.read(key, most_bytes=LONGEST)
        if text is None:
            raise NotInLibrary(f"{self._store} has no revision {revision} of {name!r}")
        if revision_of(text) != revision:
            raise LibraryError(
                f"{key} in {self._store} has the digest {revision_of(text)}, not the one it is named by: it was changed or"
                " damaged there"
            )
        signatures = {}
        for trusted in keys:
            stored = await self._store.read(layout.signature_key(name, revision, trusted), most_bytes=_SIGNATURE_BYTES)
            signature = signature_of(stored, trusted) if stored is not None else None
            if signature is not None:
                signatures[trusted] = signature
        return Found(name, revision, text, signatures)

    async def publish(self, manifest: Manifest, text: bytes) -> str:
        """Puts a manifest there, under its digest, unless it is there already; its revision."""
        revision = revision_of(text)
        key = layout.manifest_key(manifest.name, revision)
        if not await self._store.create(key, text) and await self._store.read(key, most_bytes=LONGEST) != text:
            raise LibraryError(
                f"{key} in {self._store} is there and is not what its name says: remove it, then push anew"
            )
        return revision

    async def sign(self, name: str, revision: str, key: str, signature: bytes) -> None:
        await self._store.create(layout.signature_key(name, revision, key), signature_text(key, signature))

    async def point(self, name: str, revision: str) -> None:
        """From now on the name stands for that revision; of two at once the later one's holds."""
        await self._store.replace(layout.name_key(name), json.dumps({"revision": revision}).encode() + b"\n")

    async def manifests(self, name: str = "") -> dict[str, Manifest | None]:
        """All there, or all of a name, by their keys; None for one that can't be read."""
        prefix = layout.manifests_of(check_name(name)) if name else layout.MANIFESTS
        found: dict[str, Manifest | None] = {}
        for seen in await self._store.under(prefix):
            if not seen.key.endswith(".json"):
                continue
            text = await self._store.read(seen.key, most_bytes=LONGEST) if seen.size_bytes <= LONGEST else None
            try:
                found[seen.key] = manifest_of(text) if text is not None else None
            except LibraryError:
                found[seen.key] = None
        return found

    async def remove(self, name: str) -> list[str]:
        """The keys that were deleted: the name first, so that nobody finds what is half gone.  Raises NotInLibrary."""
        pointer = await self._store.look(layout.name_key(check_name(name)))
        rest = [seen.key for seen in await self._store.under(layout.manifests_of(name))]
        keys = [*([pointer.key] if pointer is not None else []), *rest]
        if not keys:
            raise NotInLibrary(f"{self._store} has no model {name!r}")
        await self._store.delete(keys)
        return keys
