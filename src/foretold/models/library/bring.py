"""Brings a model here from its library: manifest, trust, header, room, files, in this order.

Nothing large is fetched before it is known who vouches for it, that the engine can run it, and that there is room.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from foretold.errors import LibraryError, NotInLibrary
from foretold.models.blobs import why_not_whole
from foretold.models.bundled import Tell
from foretold.models.library import budget, describing
from foretold.models.library.catalogue import Catalogue
from foretold.models.library.fetch import Fetching
from foretold.models.library.gguf import FIRST_BYTES, BadGguf, Header, NeedsMore, read_header
from foretold.models.library.kept import Kept, Origin
from foretold.models.library.layout import blob_key
from foretold.models.library.objects import Seen, Store
from foretold.models.library.shelf import Shelf, Using
from foretold.models.library.trust import Trust, accepted
from foretold.models.manifest import File, Manifest


@dataclass(frozen=True, slots=True)
class Brought:
    """A model that is here, whole: what it is, what the engine is given, who vouches for it, what was fetched."""

    manifest: Manifest
    revision: str
    weights: Path
    vouched: str
    fetched_bytes: int = 0


def vouched_here(kept: Kept, address: str, name: str, *, trust: Trust) -> tuple[Manifest, str, str] | None:
    """Of the model as it was brought before: manifest, revision, who vouches for it; None if it never was.

    The revision that is meant, else the one that came last.  Raises Untrusted if nobody vouches for it now.
    """
    revision = trust.meant or kept.last(address, name)
    text = kept.text(revision) if revision else None
    if revision is None or text is None:
        return None
    manifest, vouched = accepted(text, kept.signatures(revision, trust.keys), name=name, trust=trust)
    return manifest, revision, vouched


def already_here(shelf: Shelf, address: str, name: str, *, trust: Trust, using: Using) -> Brought | None:
    """The model as it was brought before, without asking any store; None if something of it is missing or damaged.

    Raises Untrusted if nobody vouches for what is here.
    """
    kept = Kept(shelf.folder)
    known = vouched_here(kept, address, name, trust=trust)
    if known is None:
        return None
    manifest, revision, vouched = known
    for file in manifest.files:
        blob = shelf.folder / file.blob
        if not using.take(blob):
            return None
        if why_not_whole(blob, file) is not None:
            using.drop(blob)
            return None
    return Brought(manifest, revision, kept.weights(revision, manifest), vouched)


async def bring(
    shelf: Shelf,
    store: Store,
    name: str,
    *,
    trust: Trust,
    using: Using,
    tell: Tell,
    accept: Callable[[Manifest], object] = budget.check_fits,
) -> Brought:
    """The model as its library has it: the pinned revision, else the newest.

    What is here already is not fetched again.  `accept` raises for a manifest that can't be used here, before anything
    large is fetched.  Raises LibraryError and its kinds, ModelError.
    """
    kept = Kept(shelf.folder)
    found = await Catalogue(store).find(name, revision=trust.meant, keys=trust.keys)
    manifest, vouched = accepted(found.text, found.signatures, name=name, trust=trust)
    accept(manifest)
    missing = []
    for file in manifest.files:
        blob = shelf.folder / file.blob
        if using.take(blob):
            damage = await asyncio.to_thread(why_not_whole, blob, file)
            if damage is None:
                continue
            using.drop(blob)
            tell.step(f"{blob.name} here is damaged ({damage}) and is replaced")
            shelf.remove(blob)
        missing.append(file)
    fetched = await _fetch(shelf, store, manifest, missing, tell=tell)
    for file in manifest.files:
        if not using.take(shelf.folder / file.blob):
            raise LibraryError(f"{file.blob} was removed while others came: run it again, or raise library.cache_limit")
    kept.keep(Origin(str(store), name, found.revision, bool(trust.meant)), found.text, found.signatures)
    return Brought(manifest, found.revision, kept.weights(found.revision, manifest), vouched, fetched)


async def look_into(store: Store, files: Sequence[File]) -> tuple[list[Seen], list[Header]]:
    """What the library has of these files, and their headers, from one ranged GET each.

    Raises BadGguf, or LibraryError if a file is missing or has another size than its manifest says.
    """
    seen, headers = [], []
    for file in files:
        try:
            what, header = await _header(store, file)
        except NotInLibrary:
            raise NotInLibrary(
                f"{store} has the manifest and not its file {file.name} ({blob_key(file.blob)}): push the model anew"
            ) from None
        seen.append(what)
        headers.append(header)
    return seen, headers


async def _fetch(shelf: Shelf, store: Store, manifest: Manifest, missing: Sequence[File], *, tell: Tell) -> int:
    """How many bytes came."""
    if not missing:
        return 0
    seen, headers = await look_into(store, missing)
    with _of_model(manifest.name):
        for file, header in zip(missing, headers, strict=True):
            if file is manifest.files[0]:
                describing.check_runs(header)
            if (header.part, header.parts) != (manifest.files.index(file), len(manifest.files)):
                raise BadGguf(f"{file.name} says that it is part {header.part + 1} of {header.parts}: push it anew")
    total = sum(file.size_bytes for file in missing)
    shelf.make_room(total, keep={file.blob for file in manifest.files})
    tell.step(f"fetching {manifest.name}, {total / 1e6:,.1f} MB, from {store}")
    before = fetched = 0
    for file, what in zip(missing, seen, strict=True):
        blob = shelf.folder / file.blob
        async with shelf.bringing(blob, tell=tell):
            # Look again: whoever had the lock before us may have brought it.
            if await asyncio.to_thread(why_not_whole, blob, file) is not None:
                fetching = Fetching(store, what, blob)
                await fetching.run(sha256=file.sha256, told_bytes=_after(tell, before, total))
                fetched += fetching.came_bytes
        before += file.size_bytes
        tell.progress(before, total)
    return fetched


def _after(tell: Tell, before: int, total: int) -> Callable[[int], None]:
    """How far a file is, among several; the end is told once its digest is right."""
    return lambda done_bytes: tell.progress(min(before + done_bytes, total - 1), total)


async def _header(store: Store, file: File) -> tuple[Seen, Header]:
    key, wanted = blob_key(file.blob), FIRST_BYTES
    while True:
        seen, start = await store.begin(key, min(wanted, file.size_bytes))
        if seen.size_bytes != file.size_bytes:
            raise LibraryError(
                f"{key} in {store} has {seen.size_bytes:,} bytes, its manifest says {file.size_bytes:,}: push it anew"
            )
        try:
            return seen, read_header(start, file.size_bytes)
        except NeedsMore as more:
            if len(start) < min(wanted, file.size_bytes):
                raise LibraryError(f"{store} gave only {len(start):,} of {wanted:,} bytes of {key}") from None
            wanted = max(2 * wanted, more.least_bytes)
        except BadGguf as e:
            raise BadGguf(f"{file.name} in {store}: {e}") from None


@contextmanager
def _of_model(name: str) -> Iterator[None]:
    try:
        yield
    except BadGguf as e:
        raise BadGguf(f"model {name!r}: {e}") from None
