"""What runs Workers on this machine: Node.js, and Cloudflare's own runtime from npm, pinned.

In the source tree that is what `make edge` has set up; else it is installed once into the user's cache folder.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from foretold.datafolder import cache_folder
from foretold.errors import EdgeError

LEAST_NODE = (20, 11)
INSTALL_S = 600
_HERE = Path(__file__).parent
_TREE = Path(__file__).parents[3] / "worker"
_FILES = ("package.json", "package-lock.json")
_NEEDED = "install Node.js 20.11 or newer with npm (Debian: `apt install nodejs npm`), then run this again"


@dataclass(frozen=True, slots=True)
class Platform:
    """`packages` is the folder that has node_modules, `program` the script to run."""

    node: str
    packages: Path
    program: Path


def platform(*, tell: Callable[[str], None]) -> Platform:
    """What is there, installed if need be.  Raises EdgeError, saying what is missing."""
    node = _node()
    source = _source()
    if (source / "node_modules" / "miniflare").is_dir():
        return Platform(node, source, source / "dev" / "main.js")
    packages = cache_folder() / "edge" / _digest(source)
    if not packages.is_dir():
        _install(source, packages, tell=tell)
    return Platform(node, packages, source / "dev" / "main.js")


def _source() -> Path:
    """Where our own files of it are: in the wheel beside this one, in the tree in `worker`."""
    for place in (_HERE / "worker", _TREE):
        if (place / "dev" / "main.js").is_file():
            return place
    raise EdgeError("this installation lacks the files of `foretold edge dev`: install Foretold anew")


def _node() -> str:
    found = shutil.which("node")
    if found is None:
        raise EdgeError(f"the Worker runs in Node.js, and there is no `node` here: {_NEEDED}")
    try:
        said = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=30).stdout.strip()  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as e:
        raise EdgeError(f"{found} can't be run ({type(e).__name__}): {_NEEDED}") from None
    version = re.match(r"v(\d+)\.(\d+)", said)
    if version is None or (int(version[1]), int(version[2])) < LEAST_NODE:
        raise EdgeError(f"{found} is {said or 'of no known version'}: {_NEEDED}")
    return found


def _digest(source: Path) -> str:
    return hashlib.sha256(b"".join((source / name).read_bytes() for name in _FILES)).hexdigest()[:16]


def _install(source: Path, packages: Path, *, tell: Callable[[str], None]) -> None:
    """Whole or not at all; of two at once the first counts."""
    npm = shutil.which("npm")
    if npm is None:
        raise EdgeError(f"the Worker's runtime comes by npm, and there is no `npm` here: {_NEEDED}")
    tell(f"Setting up Cloudflare's runtime in {packages} (once, some 170 MB) …")
    try:
        packages.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=packages.parent))
    except OSError as e:
        raise EdgeError(
            f"{packages.parent} can't be written ({e.strerror}): set FORETOLD_CACHE to a folder that can"
        ) from None
    try:
        for name in _FILES:
            shutil.copy(source / name, draft / name)
        words = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        try:
            ended = subprocess.run(words, cwd=draft, capture_output=True, text=True, timeout=INSTALL_S)  # noqa: S603
        except (OSError, subprocess.TimeoutExpired) as e:
            raise EdgeError(f"`npm ci` did not end ({type(e).__name__}): run this again") from None
        if ended.returncode != 0:
            said = next((line for line in ended.stderr.splitlines() if line.strip()), "it said nothing")
            raise EdgeError(f"`npm ci` failed ({said[:300]}): is the network there, and may npm use it?")
        try:
            os.rename(draft, packages)
        except OSError:
            if not packages.is_dir():
                raise EdgeError(f"{packages} can't be made: remove what is there, then run this again") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
