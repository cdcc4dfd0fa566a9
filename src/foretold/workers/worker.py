"""The program of a worker: a node that shares port, disk and flights with others, and ends with its parent.

Run as `python -m foretold.workers.worker CHANNEL LISTEN PARENT`: two descriptors and a process number.
"""

from __future__ import annotations

import asyncio
import ctypes
import dataclasses
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import msgspec

from foretold.assemble import Assembled, assemble
from foretold.config.settings import Config
from foretold.datafolder import DataFolder
from foretold.errors import ForetoldError
from foretold.fault import fault_of
from foretold.live import Live
from foretold.observe.log import QueryLog
from foretold.server.serve import rested, serve, server_for
from foretold.workers.beginning import Beginning, Running, config_of
from foretold.workers.channel import Channel, ChannelClosed
from foretold.workers.models import RemoteManaging, model_through, models_through
from foretold.workers.shares import part_of, without_disk

_PR_SET_PDEATHSIG = 1


def main() -> int:
    channel, listening, parent = (int(argument) for argument in sys.argv[1:])
    _end_with(parent)
    worker = Worker(socket.socket(fileno=channel), socket.socket(fileno=listening))
    try:
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(worker.run())
    except ImportError:
        return asyncio.run(worker.run())


class Worker:
    def __init__(self, channel: socket.socket, listening: socket.socket):
        self._channel_socket = channel
        self._listening = listening
        self._is_ready = False
        self._text = ""
        self._live: Live | None = None
        self._channel: Channel | None = None

    async def run(self) -> int:
        """Serves until told to stop; what keeps it from starting is told to the parent."""
        channel = self._channel = await Channel.open(self._channel_socket, self._answer)
        try:
            told = msgspec.convert(await channel.ask("begin"), Beginning)
            return await self._run(channel, told)
        except ChannelClosed:
            return 1
        except ForetoldError as error:
            await channel.ask("failed", fault=msgspec.to_builtins(fault_of(error)), exit_code=error.exit_code)
            return error.exit_code
        finally:
            await channel.close()

    async def _run(self, channel: Channel, told: Beginning) -> int:
        def settings(text: str) -> Config:
            file = Path(told.file) if told.file is not None else None
            config = part_of(config_of(text, file, told.given), told.workers)
            return without_disk(config) if told.without_disk else config

        config = settings(told.first)
        models = models_through(channel, told.models)
        assembled = assemble(config, DataFolder(Path(told.data)), weights={}, run_folder=Path(), local=models)
        try:
            if told.logs_queries:
                assembled.node.counters.observers.append(QueryLog(sys.stderr))
            self._text = told.now
            self._live = Live(
                config,
                assembled,
                base_url=f"{told.url}/v1",
                is_ready=lambda: self._is_ready,
                read=lambda: settings(self._text),
                company=Company(channel),
            )
            if told.now != told.first:
                self._live.reload()
            # One may have been promoted since our beginning was told; from now on we hear of it.
            for model in await channel.ask("models_now"):
                self._renew(msgspec.convert(model, Running))
            return await self._serve(channel, config, assembled)
        finally:
            if self._live is not None:
                await self._live.close()
            await assembled.node.close()

    async def _serve(self, channel: Channel, config: Config, assembled: Assembled) -> int:
        assert self._live is not None
        await assembled.node.open()
        server = server_for(self._live.app, config.server)

        def started() -> None:
            self._is_ready = True
            aside = assembled.disk_set_aside
            channel.say("ready", set_aside=str(aside) if aside is not None else None)

        def stopping() -> None:
            self._is_ready = False

        async def end_with_the_channel() -> None:
            await channel.closed.wait()
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGTERM)

        server.on_start = started
        rested()
        ending = asyncio.create_task(end_with_the_channel())
        try:
            return await serve(server, self._listening, stopping=stopping, reloading=lambda: None)
        finally:
            ending.cancel()

    def _renew(self, model: Running) -> None:
        assert self._live is not None
        assert self._channel is not None
        self._live.renew(model.settings, model_through(self._channel, model))

    async def _answer(self, what: str, members: dict[str, Any]) -> Any:
        if what == "renew" and self._live is None:
            return None  # it is asked for before we serve
        if self._live is None:
            raise ForetoldError("this process has only begun")
        match what:
            case "stats":
                return self._live.counts()
            case "reload":
                before, self._text = self._text, members["text"]
                try:
                    return dataclasses.asdict(self._live.reload())
                except ForetoldError:
                    self._text = before
                    raise
            case "renew":
                self._renew(msgspec.convert(members["model"], Running))
                return None
        raise ForetoldError(f"a worker is not asked for {what!r}")


class Company:
    """All workers, by way of the parent (live.Company)."""

    def __init__(self, channel: Channel):
        self._channel = channel
        self.models = RemoteManaging(channel)

    async def stats(self) -> dict[str, Any]:
        told: dict[str, Any] = await self._channel.ask("stats")
        return told

    async def reload(self) -> dict[str, object]:
        told: dict[str, object] = await self._channel.ask("reload")
        return told


def _end_with(parent: int) -> None:
    """Lets the kernel end this process with its parent, whatever either is doing."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the node ended before its worker began")


if __name__ == "__main__":
    sys.exit(main())
