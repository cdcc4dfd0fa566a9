"""Opens the folder of a store, or sets a damaged one aside and begins anew.

The data file is checked before LMDB maps it, and stretched to the size of its map: no page that LMDB may name lies
beyond its end, where a read would be SIGBUS.  The stretch is a hole and takes no room.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import lmdb

from foretold.errors import StoreError
from foretold.stores.disk import claims
from foretold.stores.disk.bodies import sync_names
from foretold.stores.disk.claims import Claim
from foretold.stores.disk.pages import Damaged, Meta, Walk, metas

# What LMDB says of damage; after most of them its environment is of no more use.
DAMAGE = (
    lmdb.CorruptedError,
    lmdb.CursorFullError,
    lmdb.IncompatibleError,
    lmdb.InvalidError,
    lmdb.PageNotFoundError,
    lmdb.PanicError,
    lmdb.ProblemError,
    lmdb.VersionMismatchError,
)

WALK_S = 0.4

_MAX_READERS = 512
_LOCK_BYTES = 64 * _MAX_READERS
_HEAD_BYTES = 2 * 32_768


@dataclass(slots=True)
class Unchecked:
    """The rest of a walk through a store too large to be walked at open, and the transaction that keeps it still."""

    walk: Walk
    transaction: lmdb.Transaction

    def close(self) -> None:
        self.transaction.abort()


@dataclass(slots=True)
class Opened:
    """A store that is open; `identity` is its data file's."""

    folder: Path
    env: lmdb.Environment
    claim: Claim
    identity: tuple[int, int]
    unchecked: Unchecked | None = None
    set_aside: Path | None = None

    def is_still_there(self) -> bool:
        """Whether its folder still holds this very file."""
        with contextlib.suppress(OSError):
            return _identity(self.folder / "data.mdb") == self.identity
        return False

    def close(self) -> None:
        if self.unchecked is not None:
            self.unchecked.close()
            self.unchecked = None
        self.env.close()
        self.claim.release()


def open_store(folder: Path, limit_bytes: int) -> Opened:
    """Raises StoreError if the folder can't be used."""
    make_folder(folder)
    examined = None
    try:
        examined = _identity(folder)
        if claims.died_within(folder):
            raise Damaged("a process died in it")
        return _open(folder, limit_bytes)
    except (Damaged, *DAMAGE):
        return set_aside_and_open(folder, limit_bytes, examined)
    except OSError as e:
        raise _unusable(folder, e) from None


def set_aside_and_open(folder: Path, limit_bytes: int, examined: tuple[int, int] | None = None) -> Opened:
    """A new store where a damaged one was, that is renamed.  Raises StoreError."""
    aside = folder.with_name(f"{folder.name}.damaged-{time.time_ns()}")
    try:
        # Another process may have done so meanwhile.
        is_moved = examined is None or _identity(folder) == examined
        if is_moved:
            os.rename(folder, aside)
        make_folder(folder)
        opened = _open(folder, limit_bytes)
    except OSError as e:
        raise _unusable(folder, e) from None
    except (Damaged, *DAMAGE) as e:
        raise StoreError(f"a new disk store in {folder} can't be opened: {e}") from None
    if is_moved:
        opened.set_aside = aside
    return opened


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as e:
        raise StoreError(f"the folder {folder} for answers can't be made: {e.strerror}") from None


def _open(folder: Path, limit_bytes: int) -> Opened:
    """Raises Damaged, DAMAGE, StoreError or OSError."""
    _check_data(folder / "data.mdb")
    _reserve_lock(folder / "lock.mdb")
    claim = Claim(folder)
    env = None
    try:
        env = _environment(folder, limit_bytes)
        # A name that can't be made safe now is no reason to refuse: what is lost by it is a store that is new.
        with contextlib.suppress(OSError):
            sync_names(folder)
            sync_names(folder.parent)
        return Opened(folder, env, claim, _identity(folder / "data.mdb"), _walk(folder / "data.mdb", env))
    except BaseException:
        if env is not None:
            env.close()
        claim.release()
        raise


def _check_data(path: Path) -> None:
    """Looks at the roots of a file that is there already."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(path.lstat().st_mode):
            raise Damaged("data.mdb is no file")
        file = os.open(path, os.O_RDWR)
        try:
            _roots(file)
        finally:
            os.close(file)


def _roots(file: int) -> Sequence[Meta]:
    """Both roots, or none of a file that is empty, as LMDB makes it.  Raises Damaged."""
    for tries_left in (2, 1, 0):
        size = os.fstat(file).st_size
        try:
            return metas(os.pread(file, _HEAD_BYTES, 0), size) if size else ()
        except Damaged:
            # Another process may be writing a root this moment.
            if not tries_left:
                raise
    return ()


def _reserve_lock(path: Path) -> None:
    """Gives the lock file its room beforehand: LMDB writes to it through a map, on a full disk that would be SIGBUS."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(path.lstat().st_mode):
            raise Damaged("lock.mdb is no file")
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    # Closing any descriptor of a file drops this process's fcntl locks on it, LMDB's too: it isn't open here now.
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file, 0, _LOCK_BYTES)
    except OSError as e:
        if e.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
            raise
    finally:
        os.close(file)


def _environment(folder: Path, limit_bytes: int) -> lmdb.Environment:
    try:
        env = lmdb.open(
            str(folder),
            map_size=limit_bytes,
            max_readers=_MAX_READERS,
            metasync=False,
            readahead=False,
            mode=0o600,
        )
    except DAMAGE:
        raise
    except lmdb.Error as e:
        raise StoreError(f"the disk store in {folder} can't be opened: {e}") from None
    _stretch(folder / "data.mdb", env.info()["map_size"])
    return env


def _stretch(path: Path, size: int) -> None:
    file = os.open(path, os.O_RDWR)
    try:
        # Under a lock: two processes with two limits must not make it shorter.
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file).st_size < size:
            os.ftruncate(file, size)
    except OSError:
        return  # a file system without holes; then only damage that the checks miss is worse
    finally:
        os.close(file)


def _walk(path: Path, env: lmdb.Environment) -> Unchecked | None:
    """Walks the trees for a while; what is left to be walked.  Raises Damaged."""
    with path.open("rb") as file:
        transaction = env.begin()
        try:
            # Another process may have committed since `begin`, hardly twice; if so, it has walked the store itself.
            roots = [root for root in _roots(file.fileno()) if root.transaction <= transaction.id()]
            if roots:
                now = max(roots, key=lambda root: root.transaction)
                length = (now.last_page + 1) * now.page_bytes
                walk = Walk(memoryview(mmap.mmap(file.fileno(), length, prot=mmap.PROT_READ)), now)
                if not walk.run(time.monotonic() + WALK_S):
                    return Unchecked(walk, transaction)
        except BaseException:
            transaction.abort()
            raise
    transaction.abort()
    return None


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _unusable(folder: Path, error: OSError) -> StoreError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        what_to_do = "make room there"
    else:
        what_to_do = "give this user the right to write there"
    return StoreError(
        f"the folder {folder} for answers can't be used: {error.strerror}; {what_to_do}, "
        "or set `data` or FORETOLD_HOME to another"
    )
