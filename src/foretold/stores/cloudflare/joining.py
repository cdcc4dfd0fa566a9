"""One table of generations on this machine and in KV, as pure functions of what both hold (rule G1).

A generation is random and never comes back.  So of two values one is known to be the older: the one that was replaced
here before.  KV may still show it for a minute after it was replaced there; that it is read again changes nothing.

Of a value that was never seen here and comes just after ours was told, the order is not known: it may be one that KV
still shows, or a purge after ours.  So ours counts until KV must show the newest; what it shows then is the newer.

Beside the tags the table keeps, by a tag's name in KV: `sent/` what KV is known to have, `unsent/` that what was purged
here must still be told, `unseen/` when ours was told that KV has not shown yet, `replaced/` the last values that count
no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from foretold.contract.generations import GENERATION_NAMES, generation_name

SENT, UNSENT, UNSEEN, REPLACED = "sent/", "unsent/", "unseen/", "replaced/"
# So long KV may show what was there before a write.
SHOWS_OLD_S = 60.0
_REMEMBERED = 8
_NO_TAG = (SENT, UNSENT, UNSEEN, REPLACED)


@dataclass(frozen=True, slots=True)
class Send:
    name: str
    value: str


def renewed(table: Mapping[str, str], fresh: Mapping[str, str]) -> dict[str, str]:
    """The table after a purge here; `fresh` are the new values by tag."""
    made = dict(table)
    for tag, value in fresh.items():
        name = generation_name(tag)
        _purge(made, name, tag, made.pop(name, None) or made.get(tag), value)
    return made


def settled(table: Mapping[str, str], fresh: Mapping[str, str]) -> dict[str, str]:
    """The same by the tags' names, for those that KV and this machine don't agree about."""
    made = dict(table)
    tags = _tags_by_name(table)
    for name, value in fresh.items():
        place = tags.get(name, name)
        _purge(made, name, place, made.get(place), value)
    return made


def merged(table: Mapping[str, str], found: Mapping[str, str], *, now_s: float) -> dict[str, str]:
    """The table after KV was read; `found` are its values by name."""
    made = dict(table)
    tags = _tags_by_name(table)
    for name, theirs in found.items():
        place = tags.get(name, name)
        ours = made.get(place)
        if theirs == ours:
            made[f"{SENT}{name}"] = theirs
            made.pop(f"{UNSENT}{name}", None)
            made.pop(f"{UNSEEN}{name}", None)
        elif theirs in made.get(f"{REPLACED}{name}", "").split():
            continue
        elif ours is not None and made.get(f"{SENT}{name}") == theirs and f"{UNSENT}{name}" not in made:
            # Purged here by a process that doesn't know of KV.
            _purge(made, name, place, theirs, ours)
        elif f"{UNSENT}{name}" in made:
            # Ours is newer than all that was read here, and goes over it: both purges killed what was there before.
            _replace(made, name, theirs)
        elif abs(now_s - float(made.get(f"{UNSEEN}{name}", "-inf"))) < SHOWS_OLD_S:
            continue
        else:
            made.pop(f"{UNSEEN}{name}", None)
            _replace(made, name, ours)
            made[place] = theirs
            made[f"{SENT}{name}"] = theirs
    return made


def to_send(table: Mapping[str, str], found: Mapping[str, str], *, lost: Iterable[str] = ()) -> list[Send]:
    """What KV must be told: purges it doesn't know of, tags that it never had, and those it has `lost`."""
    lost = set(lost)
    sending = []
    for name, place in {**{n: n for n in found}, **_tags_by_name(table)}.items():
        value = table.get(place)
        is_new = name not in found and f"{SENT}{name}" not in table
        if value is not None and (f"{UNSENT}{name}" in table or is_new or (name in lost and name not in found)):
            sending.append(Send(name, value))
    return sending


def sent(table: Mapping[str, str], told: Iterable[Send], *, now_s: float) -> dict[str, str]:
    """The table after KV took those."""
    made = dict(table)
    for one in told:
        made[f"{SENT}{one.name}"] = one.value
        # Purged once more meanwhile: that must still be told.
        if made.get(f"{UNSENT}{one.name}") == one.value:
            del made[f"{UNSENT}{one.name}"]
            made[f"{UNSEEN}{one.name}"] = f"{now_s:.3f}"
    return made


def absent(table: Mapping[str, str], found: Mapping[str, str]) -> set[str]:
    """The names that KV once had and doesn't show."""
    return {key.removeprefix(SENT) for key in table if key.startswith(SENT)} - set(found)


def disputed(table: Mapping[str, str], found: Mapping[str, str]) -> set[str]:
    """The names under which KV shows what counts no more here, though nothing must be told."""
    return {
        name
        for name, theirs in found.items()
        if f"{UNSENT}{name}" not in table and theirs in table.get(f"{REPLACED}{name}", "").split()
    }


def _tags_by_name(table: Mapping[str, str]) -> dict[str, str]:
    """Where in the table the value of each name stands: under the tag, where that is known."""
    places = {key: key for key in table if key.startswith(GENERATION_NAMES)}
    tags = (key for key in table if not key.startswith((*_NO_TAG, GENERATION_NAMES)))
    return {**places, **{generation_name(tag): tag for tag in tags}}


def _purge(table: dict[str, str], name: str, place: str, before: str | None, value: str) -> None:
    _replace(table, name, before)
    table[place] = value
    table[f"{UNSENT}{name}"] = value
    table.pop(f"{UNSEEN}{name}", None)


def _replace(table: dict[str, str], name: str, value: str | None) -> None:
    if value is None:
        return
    before = table.get(f"{REPLACED}{name}", "").split()
    table[f"{REPLACED}{name}"] = " ".join([*(v for v in before if v != value), value][-_REMEMBERED:])
