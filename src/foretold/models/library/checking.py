"""Whether what a manifest names is there and is what it names: here, or in the library, read from end to end."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from foretold.errors import NotInLibrary
from foretold.models.blobs import why_not_whole
from foretold.models.library.layout import blob_key
from foretold.models.library.objects import Store
from foretold.models.manifest import File, Manifest


@dataclass(frozen=True, slots=True)
class Checked:
    """A file of a model; `wrong` is empty for one that is whole."""

    file: File
    wrong: str


async def check_here(folder: Path, manifest: Manifest, *, told: Callable[[int, int], None]) -> list[Checked]:
    done, total, found = 0, manifest.size_bytes, []
    for file in manifest.files:
        wrong = await asyncio.to_thread(why_not_whole, folder / file.blob, file, told=_after(told, done, total))
        found.append(Checked(file, wrong or ""))
        done += file.size_bytes
    return found


async def check_there(store: Store, manifest: Manifest, *, told: Callable[[int, int], None]) -> list[Checked]:
    """Reads all of it over the network, and keeps nothing.  Raises LibraryError."""
    done, total, found = 0, manifest.size_bytes, []
    for file in manifest.files:
        found.append(Checked(file, await _why_not(store, file, told=_after(told, done, total))))
        done += file.size_bytes
    return found


async def _why_not(store: Store, file: File, *, told: Callable[[int, int], None]) -> str:
    key = blob_key(file.blob)
    seen = await store.look(key)
    if seen is None:
        return "it is not there"
    if seen.size_bytes != file.size_bytes:
        return f"it has {seen.size_bytes:,} bytes instead of {file.size_bytes:,}"
    digest, at = hashlib.sha256(), 0
    try:
        async for piece in store.pieces(key, 0, seen.size_bytes, etag=seen.etag):
            await asyncio.to_thread(digest.update, piece)
            at += len(piece)
            told(at, file.size_bytes)
    except NotInLibrary:
        return "it is not there"
    if at != file.size_bytes:
        return f"only {at:,} of its {file.size_bytes:,} bytes came"
    found = digest.hexdigest()
    return "" if found == file.sha256 else f"its SHA-256 is {found} instead of {file.sha256}"


def _after(told: Callable[[int, int], None], before: int, total: int) -> Callable[[int, int], None]:
    return lambda done_bytes, _: told(before + done_bytes, total)
