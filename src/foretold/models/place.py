"""One model in the pool: what it is, what is so of it just now, and how that is told."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Protocol

from foretold.models.host import Door
from foretold.models.manifest import Manifest, revision
from foretold.models.room import Resident, Size, size_of
from foretold.models.tally import Tally


class Runs(Protocol):
    """The process of a model (models/host.py)."""

    @property
    def is_running(self) -> bool: ...

    @property
    def is_starting(self) -> bool: ...

    async def start(self) -> Door: ...

    async def stop(self) -> None: ...


class Member(NamedTuple):
    """A model that may be loaded.  `keep_alive_s` below 0 keeps it until its room is wanted.

    Idle for `sleep_s` its engine sleeps; 0 is never.
    """

    manifest: Manifest
    host: Runs
    queue: int
    keep_alive_s: float = -1
    is_pinned: bool = False
    starts_first: bool = False
    sleep_s: float = 0


class State(Enum):
    AWAY = "unloaded"
    HERE = "loaded"
    LEAVING = "unloading"


# As they are told.
MODEL_STATES = ("unloaded", "loading", "loaded", "asleep", "unloading")


class Standing(Enum):
    """Of the revisions of one model one is asked; one may be coming, and some may still end their answers."""

    COMING = "coming"
    ASKED = "asked"
    REPLACED = "replaced"


@dataclass(slots=True, eq=False)
class Place:
    """`which` names it among all revisions of all models; `is_unwanted` says that it goes as soon as it is idle."""

    which: str
    member: Member
    tally: Tally
    standing: Standing = Standing.ASKED
    state: State = State.AWAY
    answering: int = 0
    last_used_s: float = 0.0
    expires_s: float = math.inf
    is_unwanted: bool = False
    leaving: asyncio.Task[None] | None = None
    size: Size = field(init=False)

    def __post_init__(self) -> None:
        self.size = size_of(self.member.manifest)

    @property
    def name(self) -> str:
        return self.member.manifest.name

    @property
    def is_dead(self) -> bool:
        """Whether nothing runs of it: its load failed, or its process died."""
        return not self.member.host.is_running and not self.member.host.is_starting

    @property
    def is_to_go(self) -> bool:
        """Whether it is here and goes though nobody wants its room."""
        if self.state is not State.HERE or self.answering:
            return False
        return self.is_unwanted or self.standing is Standing.REPLACED or self.is_dead

    def used(self, *, now_s: float, keep_alive_s: float | None) -> None:
        kept_s = self.member.keep_alive_s if keep_alive_s is None else keep_alive_s
        self.last_used_s = now_s
        self.expires_s = math.inf if kept_s < 0 else now_s + kept_s

    def resident(self) -> Resident:
        return Resident(
            name=self.which,
            size=self.size,
            answering=self.answering,
            last_used_s=self.last_used_s,
            is_pinned=self.member.is_pinned and self.standing is Standing.ASKED,
            is_leaving=self.state is State.LEAVING,
            expires_s=self.expires_s,
        )

    def told(self, *, now_s: float, waiting: int) -> dict[str, Any]:
        manifest = self.member.manifest
        is_idle = self.state is State.HERE and not self.answering
        is_expiring = is_idle and not self.member.is_pinned and self.expires_s < math.inf
        return {
            "name": self.name,
            "revision": revision(manifest),
            "state": self._told_state(now_s),
            "memory_bytes": self.size.total_bytes,
            "asleep_bytes": manifest.fixed_bytes if self.member.sleep_s else None,
            "parallel": manifest.parallel,
            "answering": self.answering,
            "waiting": waiting,
            "pinned": self.member.is_pinned,
            "idle_s": round(now_s - self.last_used_s, 1) if is_idle else None,
            "expires_in_s": round(max(0.0, self.expires_s - now_s), 1) if is_expiring else None,
        }

    def _told_state(self, now_s: float) -> str:
        if self.state is State.HERE and self.is_unwanted:
            return State.LEAVING.value
        if self.state is State.HERE and not self.member.host.is_running:
            return "loading"
        # The engine goes by its own clock, and answers whoever asks how it is that it is well.
        if self.state is State.HERE and not self.answering and 0 < self.member.sleep_s <= now_s - self.last_used_s:
            return "asleep"
        return self.state.value
