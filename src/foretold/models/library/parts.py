"""Which parts of a file have come: a line of text for each, so that a run that was killed is gone on with.

The first line says of which object, in parts of which length; of another object nothing can be used.  A part is noted
after its bytes are safe, so what stands here is there.  A last line that was cut is no line.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Plan:
    """An object, and the parts that it is fetched in: all of one length but the last."""

    size_bytes: int
    etag: str
    part_bytes: int

    @property
    def count(self) -> int:
        return -(-self.size_bytes // self.part_bytes)

    def bounds(self, part: int) -> tuple[int, int]:
        start = part * self.part_bytes
        return start, min(start + self.part_bytes, self.size_bytes)


class Journal:
    """Of one file that is being fetched; its holder has the lock."""

    def __init__(self, path: Path, plan: Plan):
        """Raises OSError."""
        self.done = _read(path, plan)
        first = b"" if self.done else json.dumps(asdict(plan), sort_keys=True).encode() + b"\n"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | (0 if self.done else os.O_TRUNC)
        self._descriptor = os.open(path, flags, 0o644)
        # A line that a killed run left half is ended; what it says then is no number of a part.
        os.write(self._descriptor, first or b"\n")

    def add(self, part: int) -> None:
        """Notes a part whose bytes are safe on disk.  Raises OSError."""
        os.write(self._descriptor, b"%d.\n" % part)
        self.done.add(part)

    def close(self) -> None:
        os.close(self._descriptor)


def _read(path: Path, plan: Plan) -> set[int]:
    try:
        first, *lines = path.read_bytes().split(b"\n")
        told = json.loads(first)
    except (OSError, ValueError):
        return set()
    if told != asdict(plan):
        return set()
    # A number is followed by a dot: of one that was cut, the beginning would be another number.
    numbers = {int(line[:-1]) for line in lines if line.endswith(b".") and line[:-1].isdigit() and len(line) < 12}
    return {number for number in numbers if number < plan.count}
