"""The place of one worker: filled again whenever who sat there died."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import sysconfig
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

import foretold
from foretold.errors import ForetoldError
from foretold.fault import Fault, error_of
from foretold.workers.channel import Channel
from foretold.workers.restarts import Deaths

PROGRAM = "foretold.workers.worker"
READY_S = 60.0


class House(Protocol):
    """What all seats share."""

    listening: socket.socket
    is_stopping: bool

    def beginning(self, *, without_disk: bool) -> dict[str, Any]: ...

    async def answer(self, seat: Seat, what: str, members: dict[str, Any]) -> Any: ...

    def left(self, seat: Seat) -> None:
        """A worker is gone, with all that it held."""
        ...

    def tell(self, line: str) -> None: ...


class Seat:
    def __init__(
        self, number: int, house: House, *, now_s: Callable[[], float], pause: Callable[[float], Awaitable[None]]
    ):
        self.number = number
        self.process: asyncio.subprocess.Process | None = None
        self.channel: Channel | None = None
        self.is_ready = False
        self.starts = 0
        self.set_aside: str | None = None
        self.last_stats: dict[str, Any] | None = None
        self.first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._house = house
        self._now_s = now_s
        self._pause = pause
        self._deaths = Deaths()
        self._failed: ForetoldError | None = None
        self._is_without_disk = False

    @property
    def pid(self) -> int | None:
        return None if self.process is None else self.process.pid

    async def keep(self) -> None:
        """Returns when the node stops and the worker has ended; `first` tells how the first start went."""
        while not self._house.is_stopping:
            code = await self._run()
            if self._house.is_stopping:
                break
            why = str(self._failed) if self._failed is not None else how_it_ended(code)
            if not self.first.done():
                self.first.set_exception(self._failed or ForetoldError(f"a worker did not start: {why}"))
                return
            pause_s = self._deaths.died(code, now_s=self._now_s())
            when = f"in {pause_s:g} s" if pause_s else "at once"
            self._house.tell(f"worker {self.number} ended ({why}): it is started again {when}")
            await self._pause(pause_s)

    def signal(self, number: int) -> None:
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)

    async def _run(self) -> int:
        """One worker from its start to its end; its exit code."""
        self._failed = None
        self._is_without_disk = self._deaths.is_without_disk(now_s=self._now_s())
        if self._is_without_disk:
            self._house.tell(f"worker {self.number} goes without the disk for a while: it died of it twice")
        ours, theirs = socket.socketpair()
        try:
            self.process = await self._spawn(theirs)
        except OSError as e:
            ours.close()
            self._failed = ForetoldError(f"a process can't be started: {e.strerror}")
            return 1
        finally:
            theirs.close()
        self.starts += 1
        self.channel = await Channel.open(ours, self._answer)
        starting = asyncio.get_running_loop().call_later(READY_S, self._too_slow)
        if self._house.is_stopping:
            self.signal(signal.SIGTERM)
        code = await self.process.wait()
        starting.cancel()
        self.is_ready = False
        await self.channel.close()
        self._house.left(self)
        return code

    async def _spawn(self, channel: socket.socket) -> asyncio.subprocess.Process:
        listening = self._house.listening
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # a module in the working folder must not stand in for one of ours
            "-m",
            PROGRAM,
            str(channel.fileno()),
            str(listening.fileno()),
            str(os.getpid()),
            pass_fds=(channel.fileno(), listening.fileno()),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=sys.stderr,
            env=_environment(),
            # Ctrl-C is the parent's to hear: it says what becomes of all.
            start_new_session=True,
        )

    async def _answer(self, what: str, members: dict[str, Any]) -> Any:
        match what:
            case "begin":
                return self._house.beginning(without_disk=self._is_without_disk)
            case "ready":
                self.is_ready = True
                self.set_aside = members["set_aside"]
                if not self.first.done():
                    self.first.set_result(None)
                return None
            case "failed":
                self._failed = error_of(Fault(**members["fault"]))
                return None
        return await self._house.answer(self, what, members)

    def _too_slow(self) -> None:
        if not self.is_ready:
            self._failed = ForetoldError(f"it was not ready within {READY_S:g} s")
            self.signal(signal.SIGKILL)


def how_it_ended(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _environment() -> dict[str, str]:
    """As ours, since settings may name variables; with the place of this package, if it isn't installed."""
    environment = dict(os.environ)
    home = str(Path(foretold.__file__).resolve().parent.parent)
    if home not in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        environment["PYTHONPATH"] = os.pathsep.join(p for p in (home, environment.get("PYTHONPATH")) if p)
    return environment
