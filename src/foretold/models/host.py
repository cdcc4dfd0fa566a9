"""The process that runs one model: started once for all who need it, watched, and started again when it dies."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from foretold.errors import ModelError
from foretold.models.blobs import why_not_whole
from foretold.models.launch import Launch, Own
from foretold.models.manifest import File, Manifest
from foretold.models.process import PROGRAM, EngineProcess
from foretold.models.restarts import Restarts
from foretold.models.tally import Tally

# What a unix socket's address holds on Linux less its final NUL; macOS has 103.
LONGEST_SOCKET_PATH = 103
LOAD_S = 120.0
GRACE_S = 2.0


@dataclass(frozen=True, slots=True)
class Door:
    """Where a running engine is asked, and with which key; another after each start.

    A program that takes no unix socket listens on a `port` of loopback; one that isn't our engine is asked for a model
    by its own name, `asks_for`.
    """

    socket: Path
    api_key: str = field(repr=False)
    pid: int
    port: int = 0
    asks_for: str = ""


class Host:
    """Runs the engine of one model.  All of it belongs to one event loop."""

    def __init__(
        self,
        manifest: Manifest,
        weights: Path,
        folder: Path,
        *,
        threads: int | None = None,
        count_here: Callable[[], int] = lambda: 1,
        tally: Tally | None = None,
        own: Own | None = None,
        sleep_s: int = 0,
        program: Sequence[str] = PROGRAM,
        load_s: float = LOAD_S,
        grace_s: float = GRACE_S,
        now_s: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ):
        """`weights` is the model's file, or the first of several that lie beside each other by their names; `folder`,
        of this user alone, takes the socket and is made where there is none.  `count_here` says how many models share
        the machine when it loads; where no `threads` are given, they share the cores too.  `tally` counts what happens; `own`
        is what the settings say of an engine that they name.
        """
        self.manifest = manifest
        self._weights = weights
        self._folder = folder
        self._threads = threads
        self._count_here = count_here
        self._tally = Tally() if tally is None else tally
        self._has_failed = False
        self._own = own
        self._sleep_s = sleep_s
        self._program = program
        self._load_s = load_s
        self._grace_s = grace_s
        self._now_s = now_s
        self._chance = chance
        self._pause = pause
        self._restarts = Restarts()
        self._starting: asyncio.Task[Door] | None = None
        self._running: tuple[EngineProcess, Door] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._short_folder: Path | None = None

    @property
    def is_running(self) -> bool:
        """Whether an engine is loaded and alive, as far as we have heard."""
        return self._running is not None and self._running[0].is_running

    @property
    def is_starting(self) -> bool:
        return self._starting is not None

    @property
    def door(self) -> Door | None:
        """That of the engine that is loaded, as far as we have heard."""
        return self._running[1] if self._running is not None else None

    async def start(self) -> Door:
        """The door of the running engine, started if need be; many may call at once and wait for one start.

        Raises ModelError if it cannot be loaded, or failed so often that it is not tried now.
        """
        if self._running is not None and self._running[0].is_running:
            return self._running[1]
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
            self._starting.add_done_callback(self._started)
        starting = self._starting
        # Waited for, not awaited: one caller leaving must not end the start for the others.
        await asyncio.wait([starting])
        if starting.cancelled():
            raise ModelError(f"model {self.manifest.name!r} was stopped while it started")
        return starting.result()

    async def stop(self) -> None:
        """Ends the engine, also one that is just starting.  A later `start` starts it anew."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait([self._starting])
        if self._running is not None:
            process, _ = self._running
            self._running = None
            await process.stop(grace_s=self._grace_s)
        if self._watching is not None:
            await asyncio.wait([self._watching])
        if self._short_folder is not None:
            shutil.rmtree(self._short_folder, ignore_errors=True)
            self._short_folder = None

    async def condemn(self, door: Door, why: str) -> None:
        """Kills the engine behind a door because it does not answer; the next `start` starts another.

        Harmless for a door that is no longer the current one.
        """
        if self._running is not None and self._running[1] is door:
            process, _ = self._running
            process.kill()
            await self._bury(process, why)

    async def _start(self) -> Door:
        if self._running is not None:
            process, _ = self._running
            await self._bury(process, process.how_it_ended())
        now_s = self._now_s()
        if (refusal := self._restarts.refusal(now_s=now_s)) is not None:
            raise ModelError(f"model {self.manifest.name!r} does not run: {refusal}")
        await self._pause(self._restarts.pause_s(now_s=now_s))
        try:
            return await self._load()
        except ModelError as e:
            self._failed(str(e))
            raise ModelError(f"model {self.manifest.name!r} does not run: {e}") from e

    async def _load(self) -> Door:
        for file, path in self._files():
            damage = await asyncio.to_thread(why_not_whole, path, file)
            if damage is not None:
                raise ModelError(f"its file {path} is not what its manifest names: {damage}; remove it and start again")
        launch = self._launch()
        process = await EngineProcess.spawn(launch, self._program)
        try:
            await process.ready(within_s=self._load_s)
        except BaseException:
            # Cancelled or failed: either way nobody else knows of this process.
            await process.stop(grace_s=0)
            raise
        own = launch.own or Own()
        door = Door(Path(launch.socket), launch.api_key, process.pid, own.port, own.asks_for)
        self._running = (process, door)
        self._tally.restarts += self._has_failed
        self._has_failed = False
        self._watching = asyncio.create_task(self._watch(process))
        return door

    def _files(self) -> list[tuple[File, Path]]:
        """What its manifest names, and where that lies: the parts of a split model by their names beside the first."""
        if len(self.manifest.files) == 1:
            return [(self.manifest.files[0], self._weights)]
        return [(file, self._weights.with_name(file.name)) for file in self.manifest.files]

    async def _watch(self, process: EngineProcess) -> None:
        await process.ended()
        await self._bury(process, process.how_it_ended())

    async def _bury(self, process: EngineProcess, why: str) -> None:
        """Counts the death of the current engine, whoever sees it first, and clears up after it."""
        if self._running is None or self._running[0] is not process:
            return
        self._running = None
        self._failed(why)
        await process.stop(grace_s=0)

    def _started(self, start: asyncio.Task[Door]) -> None:
        self._starting = None
        if not start.cancelled():
            start.exception()  # looked at, so that a start nobody waits for any more is not reported as lost

    def _failed(self, why: str) -> None:
        self._tally.failures += 1
        self._has_failed = True
        self._restarts.failed(why, now_s=self._now_s(), chance=self._chance())

    def _launch(self) -> Launch:
        manifest = self.manifest
        return Launch(
            alias=manifest.name,
            # Not resolved: the engine looks for the parts of a split model beside the name it is given.
            weights=str(self._weights.absolute()),
            socket=str(self._socket()),
            api_key=secrets.token_urlsafe(32),
            parent_pid=os.getpid(),
            memory_bytes=manifest.memory_bytes,
            context=manifest.context,
            parallel=manifest.parallel,
            cache_type_k=manifest.cache_type_k,
            cache_type_v=manifest.cache_type_v,
            chat_template=manifest.chat_template,
            threads=self._threads,
            residents=max(1, self._count_here()),
            embeds=manifest.embeds,
            own=placed(self._own) if self._own is not None else None,
            sleep_s=self._sleep_s,
        )

    def _socket(self) -> Path:
        """A path that nobody else uses; in a short folder of our own where the given one is too long for a socket."""
        name = f"{secrets.token_hex(4)}.sock"
        folder = self._folder.resolve()
        if len(os.fsencode(folder / name)) > LONGEST_SOCKET_PATH:
            if self._short_folder is None:
                self._short_folder = Path(tempfile.mkdtemp(prefix="foretold-"))
            folder = self._short_folder
        _make_private(folder)
        if len(os.fsencode(folder / name)) > LONGEST_SOCKET_PATH:
            raise ModelError(
                f"the path of its socket in {folder} is longer than {LONGEST_SOCKET_PATH} bytes: set TMPDIR shorter"
            )
        return folder / name


def placed(own: Own) -> Own:
    """With a free port of loopback, if its program is to listen on one."""
    if not any("{port}" in word for word in own.command):
        return own
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return replace(own, port=free.getsockname()[1])


def _make_private(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError as e:
        raise ModelError(f"the folder of sockets {folder} cannot be made: {e.strerror}") from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise ModelError(f"the folder of sockets {folder} must be yours alone: chmod 700 it, or give another")
