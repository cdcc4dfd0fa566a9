"""The models that the parent runs, as a worker uses them: where their engines are, and a slot in each."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path

from foretold.models.host import Door
from foretold.models.manifest import Manifest
from foretold.origins.local import LocalOrigin
from foretold.workers.channel import Channel


def models_through(channel: Channel, manifests: Iterable[Manifest]) -> dict[str, LocalOrigin]:
    return {
        manifest.name: LocalOrigin(
            RemoteHost(channel, manifest.name), manifest, slots=RemoteSlots(channel, manifest.name)
        )
        for manifest in manifests
    }


class RemoteHost:
    """origins.local.Doorkeeper"""

    def __init__(self, channel: Channel, model: str):
        self._channel = channel
        self._model = model

    async def start(self) -> Door:
        """Raises ModelError."""
        told = await self._channel.ask("door", model=self._model)
        return Door(Path(told["socket"]), told["api_key"], told["pid"])

    async def condemn(self, door: Door, why: str) -> None:
        await self._channel.ask("condemn", model=self._model, socket=str(door.socket), why=why)


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

    def release(self) -> None:
        self._channel.say("leave_slot", model=self._model, ticket=self._held.pop())
