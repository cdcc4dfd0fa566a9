"""Static files that go up beside the Worker and are served without running it, as far as `worker_first` lets them.

A file is known by its digest: what Cloudflare has already isn't sent again.
"""

from __future__ import annotations

import hashlib
import mimetypes
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import quote

from foretold.deploy import rules
from foretold.errors import ConfigError

LARGEST_BYTES = 25 * 2**20
# Of the free plan; the paid one takes 100,000.
MOST_FILES = 20_000
# What the Worker answers itself, whatever files there are.
WORKER_FIRST = ("/v1/*", "/predict/*", "/-/*")
# What other tools take for instructions, not for files.
_INSTRUCTIONS = ("_headers", "_redirects", "_worker.js", "_routes.json")
# The same on every machine, whatever its own table of types says.
_TYPES = mimetypes.MimeTypes(filenames=())
_OURS = {".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm", ".webp": "image/webp"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """One file; `path` is its path below the folder, with a slash before it."""

    path: str
    content: bytes = field(repr=False)
    content_type: str

    @property
    def digest(self) -> str:
        """32 hex digits over content and type: the API keeps the type with the content."""
        return hashlib.sha256(self.content_type.encode() + b"\0" + self.content).hexdigest()[:32]

    @property
    def address(self) -> str:
        """Where it is served: a page without its `.html`, an index at its folder."""
        at = self.path.removesuffix("index.html") if self.path.endswith("/index.html") else self.path
        return quote(at.removesuffix(".html"), safe="/!~*'()")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assets:
    """`worker_first` are patterns of paths that go to the Worker even if there is such a file.

    `folder` is where the files were read from, for tools that read them themselves.
    """

    binding: str = "ASSETS"
    files: tuple[Asset, ...]
    worker_first: tuple[str, ...] = WORKER_FIRST
    folder: Path | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        rules.check_binding(self.binding)
        rules.check_worker_first(self.worker_first)

    def manifest(self) -> dict[str, dict[str, Any]]:
        """As the API takes it: path → digest and size."""
        return {f.path: {"hash": f.digest, "size": len(f.content)} for f in self.files}

    def files_served(self) -> Iterator[Asset]:
        """Those that the Worker is not asked for first."""
        for file in self.files:
            if not any(fnmatchcase(file.path, rule) for rule in self.worker_first):
                yield file

    def config(self) -> dict[str, Any]:
        """As the API takes it, with every default that matters said.  What is no file goes to the Worker."""
        return {
            "html_handling": "auto-trailing-slash",
            "not_found_handling": "none",
            "run_worker_first": list(self.worker_first),
        }


def collect_assets(folder: Path) -> tuple[Asset, ...]:
    """Every file below the folder, by path.  Raises ConfigError for what must not be published, or can't."""
    if not folder.is_dir():
        raise ConfigError(f"the folder of static files {folder} is not there: name another with `folder` in [assets]")
    files = tuple(sorted((_read(path, folder) for path in _files(folder)), key=lambda f: f.path))
    if not files:
        raise ConfigError(f"the folder of static files {folder} is empty: put a file there, or leave [assets] out")
    if len(files) > MOST_FILES:
        raise ConfigError(f"the folder {folder} has {len(files):,} files: Cloudflare takes {MOST_FILES:,}")
    return files


def _files(folder: Path) -> Iterator[Path]:
    for at, folders, names in os.walk(folder):
        for name in [*folders, *names]:
            path = Path(at) / name
            if name.startswith(".") and name != ".well-known":
                raise ConfigError(f"{path} is hidden, and everything in {folder} would be public: move it elsewhere")
            if not path.resolve().is_relative_to(folder.resolve()) or (path.is_symlink() and path.is_dir()):
                raise ConfigError(f"{path} leads out of {folder}: put a copy of it there")
            if at == str(folder) and name in _INSTRUCTIONS:
                raise ConfigError(f"{path} is an instruction of other tools, which is not followed here: remove it")
        yield from (Path(at) / name for name in names)


def _read(path: Path, folder: Path) -> Asset:
    try:
        content = path.read_bytes()
    except OSError as e:
        raise ConfigError(f"the static file {path} can't be read: {e.strerror}") from None
    if len(content) > LARGEST_BYTES:
        raise ConfigError(f"the static file {path} is {len(content) / 2**20:.1f} MiB: Cloudflare takes 25 MiB")
    return Asset(path=f"/{path.relative_to(folder).as_posix()}", content=content, content_type=_type(path))


def _type(path: Path) -> str:
    kind = _OURS.get(path.suffix.lower()) or _TYPES.guess_type(path.name)[0] or "application/octet-stream"
    return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind
