"""The models that the parent runs, as a worker uses them: where their engines are, and a slot in each."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from foretold.assemble import patience_of
from foretold.models.host import Door
from foretold.origins.local import LocalOrigin
from foretold.workers.beginning import Running
from foretold.workers.channel import Channel


def models_through(channel: Channel, models: Iterable[Running]) -> dict[str, LocalOrigin]:
    return {running.settings.name: model_through(channel, running) for running in models}


def model_through(channel: Channel, running: Running) -> LocalOrigin:
    which = running.which
    slots = RemoteSlots(channel, which)
    patience = patience_of(running.settings)
    return LocalOrigin(RemoteHost(channel, which), running.manifest, slots=slots, patience=patience)


class RemoteHost:
    """origins.local.Doorkeeper"""

    def __init__(self, channel: Channel, model: str):
        self._channel = channel
        self._model = model

    async def start(self) -> Door:
        """Raises ModelError."""
        told = await self._channel.ask("door", model=self._model)
        return Door(**(told | {"socket": Path(told["socket"])}))

    async def condemn(self, door: Door, why: str) -> None:
        await self._channel.ask("condemn", model=self._model, socket=str(door.socket), why=why)


class RemoteManaging:
    """models.managing.Managing"""

    def __init__(self, channel: Channel):
        self._channel = channel

    async def list(self) -> dict[str, Any]:
        return await self._ask("list")

    async def load(self, name: str, keep_alive_s: float | None) -> dict[str, Any]:
        return await self._ask("load", model=name, keep_alive_s=keep_alive_s)

    async def unload(self, name: str) -> dict[str, Any]:
        return await self._ask("unload", model=name)

    async def promote(self, name: str, revision: str) -> dict[str, Any]:
        return await self._ask("promote", model=name, revision=revision)

    async def _ask(self, act: str, **members: Any) -> dict[str, Any]:
        told: dict[str, Any] = await self._channel.ask("models", act=act, **members)
        return told


class RemoteSlots:
    """origins.local.Slots: one queue for the callers of all workers."""

    def __init__(self, channel: Channel, model: str):
        self._channel = channel
        self._model = model
        self._tickets = itertools.count()
        self._held: list[int] = []

    async def acquire(self) -> None:
        ticket = next(self._tickets)
        try:
            await self._channel.ask("take_slot", model=self._model, ticket=ticket)
        except BaseException:
            self._channel.say("leave_slot", model=self._model, ticket=ticket)
            raise
        self._held.append(ticket)

    def release(self, keep_alive_s: float | None = None) -> None:
        self._channel.say("leave_slot", model=self._model, ticket=self._held.pop(), keep_alive_s=keep_alive_s)
