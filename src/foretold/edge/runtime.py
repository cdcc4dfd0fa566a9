"""The process that runs the Worker: told what to run by lines of JSON, it says what came of each."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from foretold.edge.platform import Platform
from foretold.errors import EdgeError

ANSWER_S = 60.0
END_S = 10.0
_LONGEST_LINE_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Started:
    """Where the edge and its KV are reached."""

    url: str
    api: str


class Runtime:
    def __init__(self, process: asyncio.subprocess.Process, *, log: Callable[[str], None]):
        self._process = process
        self._logging = asyncio.create_task(self._log(log))

    @classmethod
    async def start(cls, platform: Platform, *, log: Callable[[str], None]) -> Runtime:
        """`log` is told each line that the Worker or its runtime writes.  Raises EdgeError."""
        try:
            process = await asyncio.create_subprocess_exec(
                platform.node,
                str(platform.program),
                str(platform.packages),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=_LONGEST_LINE_BYTES,
                # A Ctrl-C on the terminal is ours to pass on; and what is left can be ended as a whole.
                start_new_session=True,
            )
        except OSError as e:
            raise EdgeError(f"{platform.node} can't be run: {e.strerror}") from None
        return cls(process, log=log)

    async def run(self, described: Mapping[str, Any]) -> Started:
        """Runs what is described instead of what ran.  Raises EdgeError with the reason; another try may follow."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(described).encode() + b"\n")
            await self._process.stdin.drain()
            line = await asyncio.wait_for(self._process.stdout.readline(), ANSWER_S)
        except TimeoutError:
            raise EdgeError(f"the Worker's runtime did not start within {ANSWER_S:g} s") from None
        except ConnectionError:
            line = b""
        if not line:
            raise EdgeError("the Worker's runtime has ended: what it said stands above")
        told = json.loads(line)
        if "error" in told:
            raise EdgeError(_reason(told))
        return Started(told["url"], told["api"])

    async def ended(self) -> int:
        """The exit code, once it ends by itself."""
        return await self._process.wait()

    async def close(self) -> None:
        """Lets it end; what doesn't in time is killed, with all it started."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), END_S)
        except TimeoutError:
            pass
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()
            self._logging.cancel()
            await asyncio.gather(self._logging, return_exceptions=True)

    async def _log(self, log: Callable[[str], None]) -> None:
        assert self._process.stderr is not None
        while True:
            try:
                line = await self._process.stderr.readline()
            except ValueError:
                continue  # longer than any line worth reading
            if not line:
                return
            log(line.decode(errors="replace").rstrip("\n"))


def _reason(told: Mapping[str, Any]) -> str:
    if told.get("code") == "EADDRINUSE":
        return f"a port is taken ({told['error']}): choose others with --port and --kv-port"
    if told.get("code") == "ERR_RUNTIME_FAILURE":
        return "the Worker does not start: what its runtime says stands above"
    return str(told["error"])
