"""The private files of the data folder: secret, admin token, generations.  What they hold is never shown."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

from foretold.datafolder import SECRET_BYTES
from foretold.doctor.finding import Note, Notes, fault, ok, several, skipped, warning
from foretold.doctor.world import World
from foretold.generations import sealed_table


def secret(world: World) -> Notes:
    """There, ours alone, and of the right length."""
    path = world.data / "secret"
    held = _text(path)
    if held is None:
        if (world.data / "answers").exists():
            yield warning(
                f"{path} is gone, and the kept answers with it: they can't be read without",
                "put the old file back before the node starts and makes a new one",
            )
        else:
            yield ok("not there yet: the first `foretold serve` makes it")
        return
    if isinstance(held, Note):
        yield held
        return
    if _secret_of(held) is None:
        yield fault(
            f"{path} is not {SECRET_BYTES} bytes as {2 * SECRET_BYTES} hex digits: the node won't start",
            "put the old file back, or remove it: without the old secret all kept answers are lost",
        )
    else:
        yield ok(f"there, {SECRET_BYTES} bytes, not shown")
    yield from _others_may_read(path)


def admin_token(world: World) -> Notes:
    path = world.data / "admin-token"
    held = _text(path)
    if held is None:
        yield ok("not there yet: the first `foretold serve` makes it")
        return
    if isinstance(held, Note):
        yield held
        return
    if not held:
        yield fault(f"{path} is empty: whoever sends no token is let in", "remove it; the next start makes a new one")
    else:
        yield ok("there, not shown")
    yield from _others_may_read(path)


def generations(world: World) -> Notes:
    """Whether what was purged stays purged: the table must be whole and sealed by this secret."""
    path = world.data / "generations.json"
    sealing = sealing_secret(world)
    if sealing is None:
        yield skipped("without the secret its seal can't be checked")
        return
    try:
        table = sealed_table(path, sealing)
    except FileNotFoundError:
        if (world.data / "answers").exists():
            yield warning(f"{path} is gone: at the next start all kept answers are dead", "put it back, or leave it so")
        else:
            yield ok("not there yet: the first `foretold serve` makes it")
        return
    except OSError as e:
        yield fault(f"{path} can't be read: {e.strerror}", "run as the owner of the data folder")
        return
    if table is None:
        yield fault(
            f"{path} is damaged, or sealed by another secret: at the next start all kept answers are dead",
            "put the right file back, with the secret it belongs to; else nothing: the next start makes a new one",
        )
    else:
        yield ok(f"whole and sealed, {several(len(table), 'tag')}")


def _text(path: Path) -> str | Note | None:
    """What a file holds; None if it is not there, or why it can't be read."""
    try:
        return path.read_bytes().decode(errors="replace").strip()
    except FileNotFoundError:
        return None
    except OSError as e:
        return fault(f"{path} can't be read: {e.strerror}", "run as the owner of the data folder")


def sealing_secret(world: World) -> bytes | None:
    """The secret that this node's records are sealed with; None where there is none that can be used."""
    held = _text(world.data / "secret")
    return _secret_of(held) if isinstance(held, str) else None


def _secret_of(text: str) -> bytes | None:
    try:
        secret = bytes.fromhex(text)
    except ValueError:
        return None
    return secret if len(secret) == SECRET_BYTES else None


def _others_may_read(path: Path) -> Iterator[Note]:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        yield fault(f"{path} has mode {mode:04o}: others on this machine may read it", f"chmod 600 {path}")
