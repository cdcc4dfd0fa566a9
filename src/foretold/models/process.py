"""One run of the engine's program, from its start to its end; leaves no zombie and no socket."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
import sys
import sysconfig
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import orjson

import foretold
from foretold.errors import ModelError
from foretold.models.launch import Launch

PROGRAM = ("-m", "foretold.models.engine")
# Of an engine that the settings name, by its kind.
OWN_PROGRAMS = {
    "command": ("-m", "foretold.models.command_engine"),
    "python": ("-m", "foretold.models.python_engine"),
}
# What a line of stderr begins with that whoever runs the node is to read; it holds no text of a query.
FAULT = "foretold-fault: "
_log = logging.getLogger("foretold")
_INHERITED = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
# The C library keeps what a sleeping engine has freed, unless large pieces always come from the system and go back to
# it: left to itself it raises that bound with each piece that is freed.
_GIVES_BACK = {"MALLOC_MMAP_THRESHOLD_": "262144", "MALLOC_TRIM_THRESHOLD_": "1048576"}
_LINES = 200
_LONGEST_LINE = 1000
_LONGEST_SHOWN = 300
_ERROR_LINE = re.compile(r"[0-9.]+ E (.*)")
_END_S = 1.0


class EngineProcess:
    """Made by `spawn`; whoever has it must `stop` it, also after it died."""

    def __init__(self, process: asyncio.subprocess.Process, launch: Launch):
        self._alias = launch.alias
        self._runs_another = launch.own is not None and bool(launch.own.command)
        self.pid = process.pid
        self.engine = ""
        self._process = process
        self._socket = Path(launch.socket)
        self._said: deque[str] = deque(maxlen=_LINES)
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def spawn(cls, launch: Launch, program: Sequence[str]) -> EngineProcess:
        """A process that has its settings and begins to load; `program` is what Python runs.  Raises ModelError."""
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # a module in the working folder must not stand in for one of ours
                *program,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd="/",
                env=_environment() | (_GIVES_BACK if launch.sleep_s else {}),
                start_new_session=True,
            )
        except OSError as e:
            raise ModelError(f"the engine of model {launch.alias!r} cannot be started: {e.strerror}") from None
        run = cls(process, launch)
        assert process.stdin is not None
        # Short enough for the pipe's buffer; if the process is dead already, the handshake says so.
        process.stdin.write(launch.line())
        return run

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    async def ready(self, *, within_s: float) -> None:
        """Returns once it serves.  Raises ModelError with what the engine said."""
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(within_s):
                line = await self._process.stdout.readline()
                if not line:
                    await self.ended()
        except TimeoutError:
            raise ModelError(
                f"it did not load within {within_s:g} s: give it longer, or this machine more room"
            ) from None
        try:
            told = orjson.loads(line) if line else {"failed": self.how_it_ended()}
        except orjson.JSONDecodeError:
            raise ModelError("what it said instead of its handshake is not JSON") from None
        if not told.get("ready"):
            await self._ends_within(_END_S)  # the reason is on stderr, and may still be on its way
            raise ModelError(self._first_error() or self._with_last_words(told["failed"]))
        self.engine = told["engine"]

    async def ended(self) -> None:
        """Returns once it is dead, reaped, and all it said is here."""
        await self._exited()
        self.kill()  # what it left behind would keep its pipes open
        await self._process.wait()
        # Shielded: who gives up waiting must not stop the listening for others.
        await asyncio.shield(self._listening)

    def how_it_ended(self) -> str:
        """Such as `the engine was ended by SIGKILL`."""
        code = self._process.returncode
        if code is None:
            return "the engine still runs"
        if code >= 0:
            return f"the engine exited with {code}"
        return f"the engine was ended by {signal.Signals(-code).name}"

    def kill(self) -> None:
        """Kills it and whatever it has begun: it leads a group of its own."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    async def stop(self, *, grace_s: float) -> None:
        """Ends it: asked by closing its stdin, told by SIGTERM, forced by SIGKILL."""
        try:
            assert self._process.stdin is not None
            self._process.stdin.close()
            if not await self._ends_within(grace_s):
                with contextlib.suppress(ProcessLookupError):
                    self._process.terminate()
                await self._ends_within(_END_S)
        finally:
            # Also when we are cancelled: a process must not outlive its host.
            self.kill()
            self._socket.unlink(missing_ok=True)
        await self.ended()

    async def _exited(self) -> None:
        """Returns once the process itself has ended, whoever still holds its pipes."""
        if self._process.returncode is not None:
            return
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return  # it is reaped already
        except (AttributeError, OSError):  # not on every system
            await self._process.wait()
            return
        loop, exited = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(descriptor, exited.set)
        try:
            await exited.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)

    async def _ends_within(self, patience_s: float) -> bool:
        try:
            async with asyncio.timeout(patience_s):
                await self.ended()
        except TimeoutError:
            return False
        return True

    async def _listen(self) -> None:
        """Keeps the last lines of stderr, and its pipe from running full."""
        assert self._process.stderr is not None
        begun = ""

        def heard(lines: Sequence[str]) -> None:
            self._said.extend(line[:_LONGEST_LINE] for line in lines)
            for line in lines:
                if line.startswith(FAULT):
                    _log.warning("model %r: %s", self._alias, line.removeprefix(FAULT)[:_LONGEST_LINE])

        while chunk := await self._process.stderr.read(65_536):
            *whole, begun = (begun + chunk.decode(errors="replace")).split("\n")
            heard(whole)
            begun = begun[:_LONGEST_LINE]
        if begun:
            heard([begun])

    def _with_last_words(self, failed: str) -> str:
        """Nothing was asked yet, so no line can hold a prompt."""
        said = next((line.strip() for line in reversed(self._said) if line.strip()), None)
        return (
            failed if said is None or not self._runs_another else f"{failed}; it said last: {said[:_LONGEST_SHOWN]!r}"
        )

    def _first_error(self) -> str | None:
        """Why a load failed: the first error is the cause, later ones only pass it on.

        Nothing was asked yet, so no line can hold a prompt.
        """
        found = (_ERROR_LINE.match(line) for line in self._said)
        return next((match[1] for match in found if match), None)


def _environment() -> dict[str, str]:
    """Only what Python needs to start and to find this package: no secret of the node's."""
    scrubbed = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    home = str(Path(foretold.__file__).resolve().parent.parent)
    if home not in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        scrubbed["PYTHONPATH"] = home
    return scrubbed
