"""The folder a node keeps between its runs: secret, admin token, generations, answers.

All of it is this user's alone: folders 0700, files 0600.  What can be had again, such as the weights of models, lies in
another folder, which all nodes of a user share.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path

from foretold.errors import ConfigError

SECRET_BYTES = 32
# A table of some thousand tags, written beside the old one.
SPARE_BYTES = 1024 * 1024


class DataFolder:
    def __init__(self, path: Path):
        """Makes the folder where there is none.  Raises ConfigError if it can't be used."""
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as e:
            raise ConfigError(
                f"the data folder {path} can't be made: {e.strerror}; set `data` or FORETOLD_HOME"
            ) from None
        if not os.access(path, os.W_OK | os.X_OK):
            raise ConfigError(f"the data folder {path} can't be written: set `data` or FORETOLD_HOME to one that can")

    @property
    def answers(self) -> Path:
        return self.path / "answers"

    @property
    def generations(self) -> Path:
        return self.path / "generations.json"

    @property
    def kv_read(self) -> Path:
        """A file whose time says when the edges' purges were last read."""
        return self.path / "generations-read-from-kv"

    @property
    def edge(self) -> Path:
        """What `foretold edge dev` keeps: its KV, bucket and cache, and the token of its KV."""
        return self.path / "edge-dev"

    @property
    def promoted(self) -> Path:
        """Which revisions of models were promoted, where the settings pin none."""
        return self.path / "promoted.json"

    @property
    def flights(self) -> Path:
        """Where its processes share what they fetch."""
        return self.path / "flights"

    def secret(self) -> bytes:
        """The deployment secret, made at first start."""
        text = _kept(self.path / "secret", lambda: secrets.token_hex(SECRET_BYTES))
        try:
            secret = bytes.fromhex(text)
        except ValueError:
            secret = b""
        if len(secret) != SECRET_BYTES:
            raise ConfigError(
                f"{self.path / 'secret'} must hold {SECRET_BYTES} bytes as hex digits; without the old secret all answers are lost"
            )
        return secret

    def admin_token(self) -> str:
        """What the `/-/` paths ask for, made at first start."""
        return _kept(self.path / "admin-token", lambda: f"fa_{secrets.token_urlsafe(24)}")


def data_folder(named: str) -> DataFolder:
    """The folder that the settings name, else the default.  Raises ConfigError."""
    return DataFolder(Path(named).expanduser() if named else default_path())


def default_path() -> Path:
    """FORETOLD_HOME, else the user's data folder by the XDG rules."""
    if home := os.environ.get("FORETOLD_HOME"):
        return Path(home)
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser() / "foretold"


def cache_folder() -> Path:
    """What can be had again: FORETOLD_CACHE, else the user's cache folder by the XDG rules."""
    if cache := os.environ.get("FORETOLD_CACHE"):
        return Path(cache).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "foretold"


def models_folder() -> Path:
    return cache_folder() / "models"


def kept_text(path: Path) -> str:
    """The random text of a private file, made if it isn't there."""
    return _kept(path, lambda: secrets.token_urlsafe(24))


def write_whole(path: Path, content: bytes) -> None:
    """Replaces a file so that after any crash it holds the old content or the new."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


class Spare:
    """Room held on a disk, so that what must be written can be when others have filled it."""

    def __init__(self, path: Path):
        self._path = path

    def hold(self) -> None:
        """Takes the room, or of a disk that is nearly full what there is."""
        try:
            with open(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab", buffering=0) as file:
                file.write(bytes(max(0, SPARE_BYTES - file.tell())))
        except OSError:
            return  # whoever needs it learns that none was held

    def give(self) -> bool:
        """Gives the room back to whoever writes next; whether there was any."""
        try:
            self._path.unlink()
        except OSError:
            return False
        return True


def _kept(path: Path, make: Callable[[], str]) -> str:
    """The text of a private file, made if it isn't there; of two processes at once one makes it for both."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text().strip()
    with open(descriptor, "w") as file:
        text = make()
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    return text
