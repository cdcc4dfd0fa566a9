"""Which models are in memory together: decided from what is there, what is wanted, and how much may be taken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from foretold.models.manifest import Manifest


class Size(NamedTuple):
    """What a model takes: memory of its own, and files (digest, bytes) that are mapped once for all who run them."""

    own_bytes: int
    files: tuple[tuple[str, int], ...]

    @property
    def total_bytes(self) -> int:
        return together((self,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident:
    """A model that takes memory.

    `answering` counts the answers in progress, `expires_s` is when it is idle for too long: infinite for never.
    `is_leaving` says that it is being unloaded: its memory is still taken.
    """

    name: str
    size: Size
    answering: int = 0
    last_used_s: float = 0.0
    is_pinned: bool = False
    is_leaving: bool = False
    expires_s: float = float("inf")

    @property
    def may_go(self) -> bool:
        return not self.answering and not self.is_pinned and not self.is_leaving


class Fits(NamedTuple):
    """It may be loaded now."""


class Evict(NamedTuple):
    """It may be loaded once these are unloaded; all of them are idle."""

    names: tuple[str, ...]


class Wait(NamedTuple):
    """It may be loaded once these are idle and unloaded, beside those that are leaving already."""

    names: tuple[str, ...]


class Never(NamedTuple):
    """However long it waits: it needs more than pinned models leave."""

    needed_bytes: int
    left_bytes: int


Decision = Fits | Evict | Wait | Never


def size_of(manifest: Manifest) -> Size:
    """What a model is predicted to take."""
    return Size(manifest.memory_bytes, tuple((file.sha256, file.size_bytes) for file in manifest.files))


def together(sizes: Iterable[Size]) -> int:
    """Bytes that several models take; a file that they share counts once."""
    files: dict[str, int] = {}
    own_bytes = 0
    for size in sizes:
        own_bytes += size.own_bytes
        files.update(size.files)
    return own_bytes + sum(files.values())


def decide(residents: Sequence[Resident], wanted: Size, *, budget_bytes: int) -> Decision:
    """What must happen before a model that is not among the residents may be loaded.

    Idle models go first, then those that answer once they are done; of each kind what was used longest ago.  Never a
    pinned one.
    """
    stay = {resident.name: resident for resident in residents}

    def fits() -> bool:
        return together([*(r.size for r in stay.values()), wanted]) <= budget_bytes

    if fits():
        return Fits()
    for resident in residents:
        if resident.is_leaving:
            del stay[resident.name]
    if fits():
        return Wait(())
    idle = _oldest_first(r for r in residents if r.may_go)
    busy = _oldest_first(r for r in residents if r.answering and not r.is_pinned and not r.is_leaving)
    going: list[str] = []
    for resident in [*idle, *busy]:
        del stay[resident.name]
        going.append(resident.name)
        if fits():
            return Wait(tuple(going)) if resident.answering else Evict(tuple(going))
    pinned_bytes = together(r.size for r in stay.values())
    return Never(together([*(r.size for r in stay.values()), wanted]) - pinned_bytes, budget_bytes - pinned_bytes)


def making_way(residents: Iterable[Resident], name: str) -> list[Resident]:
    """As they are for a model that comes in the place of another: that one goes, if it must, even where it is pinned."""
    return [replace(resident, is_pinned=False) if resident.name == name else resident for resident in residents]


def expired(residents: Iterable[Resident], *, now_s: float) -> list[str]:
    """Those that were idle for as long as they are kept."""
    return [r.name for r in residents if r.may_go and r.expires_s <= now_s]


def next_expiry_s(residents: Iterable[Resident]) -> float:
    """When the next of the idle ones will have been kept for long enough; infinite for never."""
    return min((r.expires_s for r in residents if r.may_go), default=float("inf"))


def why_never(name: str, manifest: Manifest, never: Never) -> str:
    """Both numbers, and what to do."""
    return (
        f"model {name!r} needs {_mb(never.needed_bytes)} of memory ({_mb(manifest.size_bytes)} of weights,"
        f" {_mb(manifest.memory_bytes)} for {manifest.parallel} × {manifest.context:,} tokens), and pool.memory leaves"
        f" it {_mb(never.left_bytes)}: raise pool.memory, set a smaller `context`, `parallel` or `kv`, or pin fewer models"
    )


def refusals(manifests: Iterable[tuple[Manifest, bool]], *, budget_bytes: int) -> list[str]:
    """Why models could never be loaded, beside those that are pinned, in a sentence each; empty if all can.

    `manifests` are the models that settings name, each with whether it is pinned.
    """
    pinned: list[Resident] = []
    told = []
    # Pinned ones first: they are there before any other.
    for manifest, is_pinned in sorted(manifests, key=lambda one: not one[1]):
        size = size_of(manifest)
        decision = decide(pinned, size, budget_bytes=budget_bytes)
        if isinstance(decision, Never):
            told.append(why_never(manifest.name, manifest, decision))
        elif is_pinned:
            pinned.append(Resident(name=manifest.name, size=size, is_pinned=True))
    return told


def _oldest_first(residents: Iterable[Resident]) -> list[Resident]:
    return sorted(residents, key=lambda r: (r.last_used_s, r.name))


def _mb(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"
