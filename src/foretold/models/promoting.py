"""A model gets another revision while it is asked, and no request fails.

The new one is brought and loaded first, beside the one that is asked or in its room.  Then later queries have its key,
and the old one ends its answers and goes.  What fails before that leaves everything as it was.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple, Protocol

from foretold.config.models import ModelSettings
from foretold.errors import ForetoldError, ModelError, OriginUnready, Refused
from foretold.models.bundled import Tell
from foretold.models.choices import Choice
from foretold.models.configured import LocalModel, LocalModels, Weights
from foretold.models.manifest import Manifest, revision

_log = logging.getLogger("foretold")


class Wanted(NamedTuple):
    """What a model is to be from now on; `choice` is what has to be remembered because no settings say it."""

    settings: ModelSettings
    weights: Weights
    choice: Choice | None


class Brings(Protocol):
    """models/renewal.py"""

    async def wanted(self, name: str, revision: str, tell: Tell) -> Wanted:
        """The model as it is to be, its files here and whole; `revision` is one that was given.  Raises ForetoldError."""
        ...

    def keep(self, wanted: Wanted) -> None:
        """Remembers it for the next start.  Raises ModelError."""
        ...

    def free(self, wanted: Iterable[Manifest]) -> None:
        """What none of these needs may be removed from this machine."""
        ...


class Telling:
    """How far a promotion is (bundled.Tell); what the command line shows."""

    def __init__(self) -> None:
        self._now: dict[str, Any] = {"step": "begun", "done_bytes": 0, "total_bytes": 0}

    def step(self, text: str) -> None:
        self._now = {"step": text, "done_bytes": 0, "total_bytes": 0}

    def progress(self, done_bytes: int, total_bytes: int) -> None:
        self._now = {**self._now, "done_bytes": done_bytes, "total_bytes": total_bytes}

    def told(self) -> dict[str, Any]:
        return self._now


class Promoting:
    def __init__(self, models: LocalModels, *, brings: Brings, switch: Callable[[LocalModel], Awaitable[None]]) -> None:
        """`switch` lets every process of the node ask that revision, from the next query on."""
        self._models = models
        self._brings = brings
        self._switch = switch
        self._telling: dict[str, Telling] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        models.on_gone(lambda which: self._free())

    def told(self, name: str) -> dict[str, Any] | None:
        """How far the promotion of a model is; None where it isn't promoted just now."""
        telling = self._telling.get(name)
        return None if telling is None else telling.told()

    async def promote(self, name: str, wanted_revision: str) -> bool:
        """Whether there was anything to change.  Whoever asked may leave: it goes on.  Raises ForetoldError."""
        if name in self._telling:
            raise Refused(
                f"model {name!r} is being promoted already: `foretold models ps` shows how far it is",
                code="promotion_runs",
                status=409,
            )
        telling = self._telling[name] = Telling()
        task = self._kept(asyncio.create_task(self._promote(name, wanted_revision, telling)))

        def ended(_: object) -> None:
            del self._telling[name]
            self._free()

        task.add_done_callback(ended)
        return await asyncio.shield(task)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _promote(self, name: str, wanted_revision: str, telling: Telling) -> bool:
        wanted = await self._brings.wanted(name, wanted_revision, telling)
        before = self._models.asked(name)
        if (before.settings, before.manifest) == (wanted.settings, wanted.weights.manifest):
            await asyncio.to_thread(self._brings.keep, wanted)
            return False
        was_here = self._models.pool.is_here(before.which)
        coming = self._models.coming(wanted.settings, wanted.weights)
        telling.step(f"loading {name}, revision {revision(coming.manifest)[:12]}")
        try:
            await self._change(coming, wanted)
        except BaseException:
            self._models.pool.let_go(coming.which)
            if was_here and not self._models.pool.is_here(before.which):
                self._kept(asyncio.create_task(self._restore(before.which)))
            raise
        return True

    async def _change(self, coming: LocalModel, wanted: Wanted) -> None:
        pool = self._models.pool
        try:
            await pool.acquire(coming.which)
        except OriginUnready as e:
            raise (e.__cause__ if isinstance(e.__cause__, ModelError) else e) from None
        # It has a slot until all ask it, so that nothing else takes its room meanwhile.
        try:
            await coming.host.start()
            await asyncio.to_thread(self._brings.keep, wanted)
            await self._switch(coming)
            self._models.ask(coming)
        finally:
            pool.release(coming.which)

    def _free(self) -> None:
        """What no revision needs may go, once none is being brought of which nobody knows yet."""
        if not self._telling:
            self._brings.free(model.manifest for model in self._models.all())

    async def _restore(self, which: str) -> None:
        """Loads again what had to make room for a revision that failed."""
        try:
            await self._models.pool.load(which)
        except ForetoldError as e:
            _log.warning("model %r was unloaded for a promotion that failed, and can't be loaded again: %s", which, e)

    def _kept(self, task: asyncio.Task[Any]) -> asyncio.Task[Any]:
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # looked at: whoever asked may have left
