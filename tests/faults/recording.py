"""Every write of a program to one folder, as strace told it, and what a power cut may leave of it.

The model is stricter than any file system of today: what was not synced is there or not, each write and each name for
itself, in any order, and a write cut at any sector.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

SECTOR_BYTES = 512
RECORDED = "openat,mkdir,pwrite64,lseek,writev,write,fdatasync,fsync,rename,unlink,ftruncate,fallocate"

_CALL = re.compile(r"^\d+ +(\w+)\((.*)\) += (-?\d+)(?:<([^>]*)>)?")
_RESUMED = re.compile(r"^(\d+) +<\.\.\. \w+ resumed>(.*)$")
_UNFINISHED = re.compile(r"^((\d+) .*) <unfinished \.\.\.>$")
_FILE = re.compile(r"^\d+<([^>]*)>")


@dataclass(frozen=True, slots=True)
class Event:
    """`what` is folder, make, seek, write, size, sync, move, remove or say; `path` is within the folder.

    A write at -1 is where the last one ended, or where it was sought.
    """

    what: str
    path: str
    at: int = 0
    content: bytes = b""
    to: str = ""


def events(log: str, folder: Path) -> list[Event]:
    found = []
    for name, arguments, result, opened in _calls(log):
        if int(result) < 0:
            continue
        event = _event(name, arguments, opened, f"{folder}/")
        if event is not None:
            found.append(event)
    return found


def _calls(log: str) -> Iterator[tuple[str, str, str, str]]:
    begun: dict[str, str] = {}
    for line in log.splitlines():
        if (cut := _UNFINISHED.match(line)) is not None:
            begun[cut.group(2)] = cut.group(1)
            continue
        if (rest := _RESUMED.match(line)) is not None:
            line = begun.pop(rest.group(1), "") + rest.group(2)
        if (call := _CALL.match(line)) is not None:
            yield call.group(1), call.group(2), call.group(3), call.group(4) or ""


def _event(name: str, arguments: str, opened: str, folder: str) -> Event | None:
    file = _FILE.match(arguments)
    path = _within(file.group(1), folder) if file is not None else None
    texts = [_bytes(text) for text in re.findall(r'"((?:\\x[0-9a-f]{2})*)"', arguments)]
    names = [_within(text.decode(), folder) for text in texts] if name in ("rename", "unlink", "mkdir") else []
    if name == "openat" and "O_CREAT" in arguments and (made := _within(opened, folder)) is not None:
        return Event("make", made)
    if name == "write" and arguments.startswith("1<"):
        return Event("say", "", content=texts[0])
    if name == "mkdir" and names[0] is not None:
        return Event("folder", names[0])
    if name == "rename" and names[0] is not None and names[1] is not None:
        return Event("move", names[0], to=names[1])
    if name == "unlink" and names[0] is not None:
        return Event("remove", names[0])
    if path is None:
        return None
    if name in ("pwrite64", "write"):
        at = int(arguments.rpartition(", ")[2]) if name == "pwrite64" else -1
        return Event("write", path, at=at, content=texts[0])
    if name == "writev":
        return Event("write", path, at=-1, content=b"".join(texts))
    if name == "lseek" and arguments.endswith("SEEK_SET"):
        return Event("seek", path, at=int(arguments.split(", ")[1]))
    if name in ("ftruncate", "fallocate"):
        return Event("size", path, at=int(arguments.rpartition(", ")[2]))
    return Event("sync", path) if name in ("fsync", "fdatasync") else None


def _within(path: str, folder: str) -> str | None:
    if path + "/" == folder:
        return "."
    return path.removeprefix(folder) if path.startswith(folder) else None


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


@dataclass(slots=True, eq=False)
class _File:
    """Content that is safe, and writes and sizes since."""

    safe: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes]] = field(default_factory=list)
    length: int = 0
    place: int = 0

    def write(self, at: int, content: bytes) -> None:
        if at < 0:
            at, self.place = self.place, self.place + len(content)
        self.length = max(self.length, at + len(content))
        self.pending.append((at, content))

    def sync(self) -> None:
        for at, content in self.pending:
            _put(self.safe, at, content)
        self.pending.clear()

    def left(self, chance: random.Random) -> bytes:
        content = bytearray(self.safe)
        pending = list(self.pending)
        chance.shuffle(pending)
        for at, piece in pending:
            fate = chance.random()
            if fate < 0.45:
                _put(content, at, piece)
            elif fate < 0.6:
                _put(content, at, piece[: chance.randrange(0, len(piece) + 1, SECTOR_BYTES)])
        return bytes(content)


def _put(content: bytearray, at: int, piece: bytes) -> None:
    if len(content) < at + len(piece):
        content.extend(bytes(at + len(piece) - len(content)))
    content[at : at + len(piece)] = piece


class Disk:
    """A folder as the events leave it, and as a power cut would."""

    def __init__(self) -> None:
        self._safe: dict[str, _File | None] = {}
        self._now: dict[str, _File | None] = {}
        self.said: list[bytes] = []

    def do(self, event: Event) -> None:
        match event.what:
            case "say":
                self.said.append(event.content)
            case "folder":
                self._now.setdefault(event.path, None)
            case "make":
                self._now.setdefault(event.path, _File())
            case "remove":
                self._now.pop(event.path, None)
            case "move":
                self._now[event.to] = self._now.pop(event.path)
            case "write":
                self._file(event.path).write(event.at, event.content)
            case "seek":
                self._file(event.path).place = event.at
            case "size":
                # Without its zeros a file is cut: sizes are as unsafe as content until they are synced.
                file = self._file(event.path)
                if event.at > file.length:
                    file.write(event.at - 1, b"\0")
            case "sync" if self._now.get(event.path, None) is not None:
                self._file(event.path).sync()
            case "sync":
                self._sync_names(event.path)

    def sync_all(self) -> None:
        for path in self._now:
            self.do(Event("sync", path))
        self._sync_names(".")

    def cut(self, folder: Path, chance: random.Random) -> None:
        """Writes down what is left after a power cut now."""
        folder.mkdir(parents=True)
        names = dict(self._safe)
        for path in self._safe.keys() | self._now.keys():
            if self._safe.get(path, 0) is not self._now.get(path, 0) and chance.random() < 0.5:
                if path in self._now:
                    names[path] = self._now[path]
                else:
                    names.pop(path)
        for path, file in sorted(names.items()):
            if not (folder / path).parent.is_dir():
                continue
            if file is None:
                (folder / path).mkdir()
            else:
                (folder / path).write_bytes(file.left(chance))

    def _file(self, path: str) -> _File:
        file = self._now[path]
        assert file is not None, f"{path} is a folder"
        return file

    def _sync_names(self, folder: str) -> None:
        def is_here(path: str) -> bool:
            return (path.rpartition("/")[0] or ".") == folder

        self._safe = {path: file for path, file in self._safe.items() if not is_here(path)}
        self._safe |= {path: file for path, file in self._now.items() if is_here(path)}
