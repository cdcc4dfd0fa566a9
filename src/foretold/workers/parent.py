"""The parent of the workers: it serves nothing itself, and goes on whatever becomes of them.

It holds the listening socket and the hosts of local models, starts workers and starts them again, and passes on what
concerns all: signals, settings read anew, counts.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import signal
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from foretold.config.settings import Config
from foretold.errors import ForetoldError
from foretold.models.configured import LocalModel, LocalModels
from foretold.models.managing import PoolManaging, counted
from foretold.models.manifest import Manifest
from foretold.models.pool import PoolSlots
from foretold.models.promoting import Brings, Promoting
from foretold.observe.summing import ended, summed
from foretold.workers.beginning import Beginning, Given, Running, config_of
from foretold.workers.channel import ChannelClosed
from foretold.workers.seat import Seat
from foretold.workers.slots import EngineSlots

_log = logging.getLogger("foretold")

STATS_S = 1.0
RELOAD_S = 10.0
# Beyond the time that running answers have: then whoever still runs is killed.
GRACE_S = 5.0


class WorkerSilent(ForetoldError):
    status = 504
    code = "worker_silent"
    retryable = True


class Parent:
    def __init__(
        self,
        config: Config,
        listening: socket.socket,
        *,
        text: str,
        given: Given,
        url: str,
        read: Callable[[], str],
        data: Path,
        models: LocalModels,
        brings: Brings,
        logs_queries: bool,
        tell: Callable[[str], None],
        now_s: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ):
        """`text` are the settings that `config` was made of, with what was `given` instead, `read` gives them as they
        are written now; `tell` takes lines for whoever runs the node.
        """
        self.listening = listening
        self.is_stopping = False
        self.tell = tell
        self._config = config
        self._first = self._now = text
        self._given = given
        self._url = url
        self._read = read
        self._data = data
        self._logs_queries = logs_queries
        self._models = models
        self._running = {model.settings.name: _running(model) for model in models.models}
        self._promoting = Promoting(models, brings=brings, switch=self._switch)
        self._managing = PoolManaging(models.pool, self._promoting)
        self._slots: dict[str, EngineSlots] = {}
        models.on_gone(self._forget)
        self._reloading = asyncio.Lock()
        self._gone: dict[str, Any] | None = None
        self.seats = [Seat(i + 1, self, now_s=now_s, pause=pause) for i in range(config.server.workers)]
        self._keeping = [asyncio.create_task(seat.keep()) for seat in self.seats]

    @property
    def manifests(self) -> list[Manifest]:
        return [model.manifest for model in self._running.values()]

    async def ready(self) -> None:
        """Returns when all workers serve.  Raises what keeps one of them from it."""
        await asyncio.gather(*(seat.first for seat in self.seats))

    async def stop(self) -> None:
        """Lets running answers end, and all workers with them; called again, at once."""
        self.is_stopping = True
        self.listening.close()
        for seat in self.seats:
            seat.signal(signal.SIGTERM)

    async def ended(self) -> None:
        """Returns when all workers have ended after `stop`, or were killed because they didn't."""
        await self._promoting.close()
        waiting = [task for task, seat in zip(self._keeping, self.seats, strict=True) if _still_runs(seat, task)]
        if waiting:
            await asyncio.wait(waiting, timeout=self._config.server.drain + GRACE_S)
        for task, seat in zip(self._keeping, self.seats, strict=True):
            if _still_runs(seat, task):
                seat.signal(signal.SIGKILL)
                await asyncio.wait([task])
            task.cancel()
        await asyncio.gather(*self._keeping, return_exceptions=True)
        for seat in self.seats:
            if seat.first.done() and not seat.first.cancelled():
                seat.first.exception()  # looked at: of several that failed, one was told

    async def reload(self) -> dict[str, Any]:
        """Lets all workers read the settings anew.  Raises ForetoldError; settings that aren't valid change nothing."""
        async with self._reloading:
            text = self._read()
            config_of(text, self._config.file, self._given)
            self._now = text
            told = await asyncio.gather(
                *(self._ask(seat, "reload", within_s=RELOAD_S, text=text) for seat in self.seats if seat.is_ready)
            )
        if not told or None in told:
            raise WorkerSilent(f"a worker did not answer within {RELOAD_S:g} s: it reads the settings when it goes on")
        first: dict[str, Any] = told[0]
        return first

    def beginning(self, *, without_disk: bool) -> dict[str, Any]:
        told = Beginning(
            first=self._first,
            now=self._now,
            file=str(self._config.file) if self._config.file is not None else None,
            given=self._given,
            url=self._url,
            workers=len(self.seats),
            models=tuple(self._running.values()),
            data=str(self._data),
            logs_queries=self._logs_queries,
            without_disk=without_disk,
        )
        made: dict[str, Any] = msgspec.to_builtins(told)
        return made

    async def answer(self, seat: Seat, what: str, members: dict[str, Any]) -> Any:
        match what:
            case "stats":
                return await self._stats()
            case "reload":
                return await self.reload()
            case "door":
                door = await self._models.of(members["model"]).host.start()
                return dataclasses.asdict(door) | {"socket": str(door.socket)}
            case "condemn":
                await self._condemn(**members)
                return None
            case "take_slot":
                await self._slots_of(members["model"]).take((seat.number, members["ticket"]))
                return None
            case "leave_slot":
                ticket = seat.number, members["ticket"]
                if (slots := self._slots.get(members["model"])) is not None:
                    slots.leave(ticket, keep_alive_s=members.get("keep_alive_s"))
                return None
            case "models_now":
                return [msgspec.to_builtins(model) for model in self._running.values()]
            case "models":
                return await self._manage(**members)
        raise ForetoldError(f"the parent is not asked for {what!r}")

    def left(self, seat: Seat) -> None:
        for slots in list(self._slots.values()):
            slots.leave_all(seat.number)
        if seat.last_stats is not None:
            gone = ended(seat.last_stats)
            self._gone = gone if self._gone is None else summed([self._gone, gone])
            seat.last_stats = None

    async def _stats(self) -> dict[str, Any]:
        """The counts of all; of a worker that says nothing, or is gone, those it last told."""
        told = await asyncio.gather(*(self._ask(seat, "stats", within_s=STATS_S) for seat in self.seats))
        for seat, one in zip(self.seats, told, strict=True):
            seat.last_stats = one if one is not None else seat.last_stats
        living = [seat.last_stats for seat in self.seats if seat.last_stats is not None]
        if not living:
            raise WorkerSilent("no worker tells its counts: try again in a moment")
        counts = summed([*living, *([self._gone] if self._gone is not None else [])])
        workers = [
            {
                "worker": seat.number,
                "pid": seat.pid,
                "ready": seat.is_ready,
                "answered": one is not None,
                "received": seat.last_stats["received"] if seat.last_stats is not None else 0,
                "flights": seat.last_stats["flights"] if seat.last_stats is not None else 0,
                "tiers": [tier["name"] for tier in seat.last_stats["tiers"]] if seat.last_stats is not None else [],
            }
            for seat, one in zip(self.seats, told, strict=True)
        ]
        models = counted(self._models.pool.told())
        return counts | {
            "models": models,
            "workers": workers,
            "restarts": sum(max(0, seat.starts - 1) for seat in self.seats),
        }

    async def _ask(self, seat: Seat, what: str, *, within_s: float, **members: Any) -> Any:
        """Its answer, or None if there is none in time.  Raises what it told."""
        if seat.channel is None or seat.channel.closed.is_set() or not seat.is_ready:
            return None
        try:
            async with asyncio.timeout(within_s):
                return await seat.channel.ask(what, **members)
        except (TimeoutError, ChannelClosed):
            return None

    def _forget(self, which: str) -> None:
        self._slots.pop(which, None)

    def _slots_of(self, which: str) -> EngineSlots:
        """Raises OriginReplaced for a revision that is gone."""
        self._models.of(which)
        if which not in self._slots:
            self._slots[which] = EngineSlots(PoolSlots(self._models.pool, which))
        return self._slots[which]

    async def _switch(self, model: LocalModel) -> None:
        """Lets all workers ask a model in another revision; one that begins just now asks for it, one that hangs hears of
        it before anything else.
        """
        running = self._running[model.settings.name] = _running(model)
        told = msgspec.to_builtins(running)
        channels = [
            seat.channel for seat in self.seats if seat.channel is not None and not seat.channel.closed.is_set()
        ]
        asked = [asyncio.create_task(channel.ask("renew", model=told)) for channel in channels]
        if asked:
            await asyncio.wait(asked, timeout=RELOAD_S)
        for task in asked:
            task.cancel()
        for failed in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(failed, Exception) and not isinstance(failed, ChannelClosed):
                _log.error("a worker could not change the revision of %r: %s", model.settings.name, failed)

    async def _manage(
        self, act: str, model: str = "", keep_alive_s: float | None = None, revision: str = ""
    ) -> dict[str, Any]:
        match act:
            case "promote":
                return await self._managing.promote(model, revision)
            case "load":
                return await self._managing.load(model, keep_alive_s)
            case "unload":
                return await self._managing.unload(model)
        return await self._managing.list()

    async def _condemn(self, model: str, socket: str, why: str) -> None:
        """If the engine has been started anew meanwhile, nothing: its door is another."""
        host = self._models.of(model).host
        door = host.door
        if door is not None and str(door.socket) == socket:
            await host.condemn(door, why)


def _running(model: LocalModel) -> Running:
    return Running(model.which, model.settings, model.manifest)


def _still_runs(seat: Seat, task: asyncio.Task[None]) -> bool:
    return not task.done() and seat.process is not None and seat.process.returncode is None
