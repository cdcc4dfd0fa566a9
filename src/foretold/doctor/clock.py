"""Whether this machine's clock can be trusted: freshness and signed times depend on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import foretold
from foretold.doctor.finding import Note, Notes, ok, warning
from foretold.doctor.upstreams import Visit
from foretold.doctor.world import World

MOST_S = 5.0
_SET_IT = "set this machine's clock, and keep it right with NTP: timedatectl set-ntp true"


def clock(world: World, visits: Sequence[Visit]) -> Notes:
    """Against upstreams that answered, and against files that can't be from the future."""
    compared = list(_with_files(world)) + list(_with_upstreams(visits))
    wrong = [note for note in compared if note.todo]
    yield from wrong or [ok("; ".join(note.found for note in compared))]


def _with_upstreams(visits: Sequence[Visit]) -> Iterator[Note]:
    for visit in visits:
        if visit.ahead_s is None:
            continue
        apart = f"{abs(visit.ahead_s):.1f} s {'ahead of' if visit.ahead_s > 0 else 'behind'} the Date of {visit.name}"
        yield ok(apart) if abs(visit.ahead_s) <= MOST_S else warning(f"it is {apart}", _SET_IT)


def _with_files(world: World) -> Iterator[Note]:
    installed = Path(foretold.__file__)
    newest = max([installed, *_in(world.data)], key=lambda path: path.stat().st_mtime)
    behind_s = newest.stat().st_mtime - world.now_s
    if behind_s > MOST_S:
        yield warning(f"it is {behind_s:.0f} s behind the time of {newest}", _SET_IT)
    else:
        yield ok("not behind the files of this node")


def _in(folder: Path) -> list[Path]:
    """The files that a node writes."""
    names = ("secret", "admin-token", "generations.json", "answers/data.mdb")
    return [folder / name for name in names if (folder / name).is_file()]
