"""What a check found: notes, each with its verdict and what to do; the check's verdict is the worst of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

MIB = 2**20


class Verdict(IntEnum):
    """In the order of how bad it is."""

    skipped = 0
    ok = 1
    warning = 2
    fault = 3


@dataclass(frozen=True, slots=True)
class Note:
    verdict: Verdict
    found: str
    todo: tuple[str, ...] = ()


Notes = Iterator[Note]


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    notes: tuple[Note, ...]

    @property
    def verdict(self) -> Verdict:
        return max((note.verdict for note in self.notes), default=Verdict.skipped)

    def told(self) -> dict[str, object]:
        """For machines."""
        found = [note.found for note in self.notes]
        todo = [line for note in self.notes for line in note.todo]
        return {"check": self.check, "verdict": self.verdict.name, "found": found, "todo": todo}


def ok(found: str) -> Note:
    return Note(Verdict.ok, found)


def warning(found: str, *todo: str) -> Note:
    return Note(Verdict.warning, found, todo)


def fault(found: str, *todo: str) -> Note:
    return Note(Verdict.fault, found, todo)


def skipped(why: str) -> Note:
    return Note(Verdict.skipped, why)


def several(count: int, name: str) -> str:
    """Such as `1 model`, `2 models`."""
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


def size(count: float) -> str:
    """Such as `1.2 GiB`."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if count == int(count) else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
