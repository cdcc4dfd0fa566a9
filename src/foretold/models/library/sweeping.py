"""Frees what nothing names any more: here, and in a library.

In a library only what has been there for a while: a push puts its files there before the manifest that names them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from foretold.errors import LibraryError
from foretold.models.library import importing
from foretold.models.library.catalogue import Catalogue
from foretold.models.library.kept import Kept
from foretold.models.library.layout import BLOBS, blob_key
from foretold.models.library.objects import Store
from foretold.models.library.shelf import COMING, Shelf

GRACE = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Freed:
    """What was removed, or would be, by name with its bytes."""

    removed: tuple[tuple[str, int], ...]

    @property
    def size_bytes(self) -> int:
        return sum(size for _, size in self.removed)


def sweep_here(shelf: Shelf, *, wanted: Collection[str], only_look: bool) -> Freed:
    """Blobs that no manifest here names and that aren't `wanted`, unfinished ones, and what is beyond the limit.

    What is in use, or on its way, stays.
    """
    kept = Kept(shelf.folder)
    named = kept.named_blobs() | set(wanted)
    freed: list[tuple[str, int]] = []
    for held in shelf.blobs():
        if held.path.name in named or shelf.is_used(held.path):
            continue
        if only_look or shelf.remove(held.path):
            freed.append((held.path.name, held.size_bytes))
    for left in shelf.left_over():
        if only_look or shelf.drop_unfinished(left.path):
            freed.append((left.path.name + COMING, left.size_bytes))
    if not only_look:
        importing.clear(shelf)
        kept.tidy(shelf.is_used)
    gone = {name for name, _ in freed}
    rest = [held for held in shelf.blobs() if held.path.name not in gone]
    over_bytes = sum(held.size_bytes for held in rest) - shelf.limit_bytes
    for held in rest:
        if over_bytes <= 0:
            break
        if not shelf.is_used(held.path) and (only_look or shelf.remove(held.path)):
            freed.append((held.path.name, held.size_bytes))
            over_bytes -= held.size_bytes
    return Freed(tuple(freed))


def forget_here(shelf: Shelf, name: str, *, wanted: Collection[str]) -> list[str]:
    """The model's origins, revisions and files that are gone; a file that is `wanted`, shared or in use stays."""
    kept = Kept(shelf.folder)
    manifests = [kept.manifest(origin.revision) for origin in kept.origins() if origin.name == name]
    gone = [f"{origin.name} {origin.revision[:12]} from {origin.address}" for origin in kept.forget(name)]
    named = kept.named_blobs() | set(wanted)
    kept.tidy(shelf.is_used)
    for blob in sorted({file.blob for manifest in manifests if manifest for file in manifest.files} - named):
        path = shelf.folder / blob
        if path.exists() and shelf.remove(path):
            gone.append(blob)
    return gone


async def sweep_there(store: Store, *, now: Callable[[], datetime], grace: timedelta = GRACE, only_look: bool) -> Freed:
    """Blobs that no manifest of the library names and that have been there for a while.

    Raises LibraryError, and removes nothing, if a manifest can't be read: it could name any of them.
    """
    old = [seen for seen in await store.under(BLOBS) if now() - seen.modified > grace]
    manifests = await Catalogue(store).manifests()
    unread = next((key for key, manifest in manifests.items() if manifest is None), None)
    if unread is not None:
        raise LibraryError(f"{unread} in {store} can't be read, and could name any file: nothing was removed")
    named = {blob_key(file.blob) for manifest in manifests.values() if manifest for file in manifest.files}
    forgotten = [seen for seen in old if seen.key not in named]
    if not only_look:
        await store.delete([seen.key for seen in forgotten])
    return Freed(tuple((seen.key, seen.size_bytes) for seen in forgotten))
