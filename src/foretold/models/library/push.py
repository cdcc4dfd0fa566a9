"""Puts a model into a library: files by their digests, then the manifest, then the name that points to it.

Whoever looks in between finds the old model whole or the new one whole.  Two that push at once do no harm: files and
manifests are named by what they are.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from foretold.errors import LibraryError, ModelError
from foretold.models.bundled import Tell
from foretold.models.library.catalogue import Catalogue
from foretold.models.library.describing import Said, described, header_of
from foretold.models.library.document import written
from foretold.models.library.layout import blob_key
from foretold.models.library.objects import PART_BYTES, PIECE_BYTES, Store
from foretold.models.library.trust import signed
from foretold.models.manifest import File, Manifest


@dataclass(frozen=True, slots=True)
class Pushed:
    """A model that is in the library now, and how many bytes of it went there."""

    manifest: Manifest
    revision: str
    sent_bytes: int
    signed_by: str


async def push(
    store: Store,
    files: Mapping[str, Path],
    said: Said,
    *,
    signing_key: Path | None,
    tell: Tell,
    replaces: bool = False,
) -> Pushed:
    """The model in these files, in order and by their names, sent but for what is there already; with `replaces`, all.

    Raises ModelError for files that are no model, LibraryError and its kinds for what the store does."""
    headers = [header_of(file) for file in files.values()]
    tell.step(f"computing the SHA-256 of {', '.join(files)}")
    sizes = [file.stat().st_size for file in files.values()]
    hashing = _Hashing(tell, sum(sizes))
    named = []
    for (name, file), size_bytes in zip(files.items(), sizes, strict=True):
        named.append(File(name, await asyncio.to_thread(hashing.sha256, file), size_bytes))
    manifest = described(headers, named, said)
    text = written(manifest)
    pairs = list(zip(files.values(), named, strict=True))
    missing = pairs if replaces else [(path, file) for path, file in pairs if not await _is_there(store, file)]
    sent = await _send(store, missing, tell=tell)
    catalogue = Catalogue(store)
    revision = await catalogue.publish(manifest, text)
    signer = ""
    if signing_key is not None:
        signer, signature = signed(revision, signing_key)
        await catalogue.sign(manifest.name, revision, signer, signature)
    # Look again: a clean-up may have taken a file for forgotten before the manifest named it.
    for blob in [file.blob for file in named]:
        if await store.look(blob_key(blob)) is None:
            raise LibraryError(f"{blob} was removed from {store} meanwhile: push it again")
    await catalogue.point(manifest.name, revision)
    return Pushed(manifest, revision, sent, signer)


async def _is_there(store: Store, file: File) -> bool:
    """By its name and size: what it holds, `verify` tells."""
    there = await store.look(blob_key(file.blob))
    return there is not None and there.size_bytes == file.size_bytes


async def _send(store: Store, missing: Sequence[tuple[Path, File]], *, tell: Tell) -> int:
    """How many bytes went."""
    total = sum(file.size_bytes for _, file in missing)
    if total:
        tell.step(f"sending {total / 1e6:,.1f} MB to {store}")
    sent = 0
    for path, file in missing:
        if file.size_bytes <= PART_BYTES:
            content = await asyncio.to_thread(_whole, path, file)
            if not await store.create(blob_key(file.blob), content):
                await store.replace(blob_key(file.blob), content)
        else:
            await _upload(store, path, file, told_bytes=_after(tell, sent, total))
        sent += file.size_bytes
        tell.progress(sent, total)
    return sent


async def _upload(store: Store, path: Path, file: File, *, told_bytes: Callable[[int], None]) -> None:
    """Raises LibraryError, with nothing left there, if the file isn't what it was when its digest was computed."""
    stopping = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        digest, done_bytes = hashlib.sha256(), 0
        with path.open("rb") as opened:
            while piece := await asyncio.to_thread(opened.read, PIECE_BYTES):
                if stopping.is_set():
                    raise _Stopped
                done_bytes += len(piece)
                await asyncio.to_thread(digest.update, piece)
                if done_bytes >= file.size_bytes and (
                    done_bytes > file.size_bytes or digest.hexdigest() != file.sha256
                ):
                    raise _Stopped
                yield piece
                told_bytes(done_bytes)
        if done_bytes != file.size_bytes:
            raise _Stopped

    sending = asyncio.create_task(_unless_changed(store.upload(blob_key(file.blob), pieces(), file.size_bytes), path))
    try:
        await asyncio.shield(sending)
    except asyncio.CancelledError:
        # Ended by its own source, the upload is taken back; dropped, its parts would stay there unseen, and be paid for.
        stopping.set()
        await asyncio.wait([sending])
        if not sending.cancelled():
            sending.exception()
        raise


async def _unless_changed(upload: object, path: Path) -> None:
    try:
        await upload  # type: ignore[misc]
    except _Stopped:
        raise LibraryError(f"{path} was changed while it was sent: push it again") from None


class _Stopped(Exception):
    pass


class _Hashing:
    def __init__(self, tell: Tell, total: int):
        self._tell = tell
        self._total = total
        self._done = 0

    def sha256(self, file: Path) -> str:
        digest = hashlib.sha256()
        try:
            with file.open("rb") as opened:
                while piece := opened.read(4 * PIECE_BYTES):
                    digest.update(piece)
                    self._done += len(piece)
                    self._tell.progress(self._done, self._total)
        except OSError as e:
            raise ModelError(f"{file} can't be read: {e.strerror}") from None
        return digest.hexdigest()


def _whole(path: Path, file: File) -> bytes:
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise LibraryError(f"{path} was changed while it was sent: push it again")
    return content


def _after(tell: Tell, before: int, total: int) -> Callable[[int], None]:
    return lambda done_bytes: tell.progress(min(before + done_bytes, total - 1), total)
