"""The measured processes: each on one core, its CPU time read from the scheduler's own account."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SERVER_CORE = 0
LOAD_CORE = 1

_STARTS_WITHIN_S = 20.0
_QUIET_NS = 1_000_000
_QUIET_WITHIN_S = 10.0


class Server:
    """A process and its children until `stop`.  Ours print their address as a JSON line; others are given it as `url`.

    `core` is the one it is kept on, None for any.
    """

    def __init__(self, name: str, command: Sequence[str], folder: Path, *, core: int | None, url: str = ""):
        self.name = name
        self._printed = folder / f"{name}.out"
        self._told = folder / f"{name}.err"
        sources = os.pathsep.join(filter(None, (str(HERE.parent / "src"), os.environ.get("PYTHONPATH", ""))))
        settings = {n: v for n, v in os.environ.items() if not n.startswith("FORETOLD_")}
        with self._printed.open("wb") as printed, self._told.open("wb") as told:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=told,
                cwd=folder,
                env={**settings, "PYTHONPATH": sources},
                # Before the process has threads, so that all of them get it.
                preexec_fn=None if core is None else lambda: os.sched_setaffinity(0, {core}),
            )
        self.url = self._listening(url) if url else self._address()

    def cpu_ns(self) -> int:
        """CPU time of all threads so far.  A thread that ended is no longer in it; these live as long as the process."""
        spent, waiting = 0, [self._process.pid]
        while waiting:
            for thread in Path(f"/proc/{waiting.pop()}/task").iterdir():
                with contextlib.suppress(OSError):
                    spent += int((thread / "schedstat").read_text().split()[0])
                    waiting += map(int, (thread / "children").read_text().split())
        return spent

    def quiet_cpu_ns(self) -> int:
        """The same once the process has done what was left to do, such as writing to disk."""
        until = time.monotonic() + _QUIET_WITHIN_S
        spent = self.cpu_ns()
        while time.monotonic() < until:
            time.sleep(0.1)
            before, spent = spent, self.cpu_ns()
            if spent - before < _QUIET_NS:
                break
        return spent

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _listening(self, url: str) -> str:
        until = time.monotonic() + _STARTS_WITHIN_S
        parts = urllib.parse.urlsplit(url)
        while time.monotonic() < until and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection((parts.hostname, parts.port), 1):
                return url
            time.sleep(0.05)
        self.stop()
        raise RuntimeError(f"{self.name} did not start:\n{self._told.read_text()[-2000:]}")

    def _address(self) -> str:
        until = time.monotonic() + _STARTS_WITHIN_S
        while time.monotonic() < until and self._process.poll() is None:
            line, ended, _ = self._printed.read_text().partition("\n")
            if ended:
                return str(json.loads(line)["url"])
            time.sleep(0.05)
        self.stop()
        raise RuntimeError(f"{self.name} did not start:\n{self._told.read_text()[-2000:]}")


class Mock(Server):
    def __init__(self, folder: Path, *, delay_ms: int = 0, pause_ms: int = 0):
        command = [sys.executable, str(HERE / "mock_upstream.py"), str(delay_ms), str(pause_ms)]
        super().__init__("mock", command, folder, core=LOAD_CORE)

    def calls(self) -> int:
        return int(fetched_json(f"{self.url}/stats")["calls"])


class Node(Server):
    """`foretold serve` with a data folder of its own in front of one upstream."""

    def __init__(self, name: str, upstream: str, folder: Path, *, memory: str = "256 MiB", workers: int = 1):
        """`memory` is the limit of the memory tier, such as `256 MiB`."""
        self._data = folder / f"{name}-data"
        settings = folder / f"{name}.toml"
        settings.write_text(
            f'data = "{self._data}"\n[server]\nworkers = {workers}\n[logs]\nqueries = "off"\n[upstreams.mock]\nurl = "{upstream}/v1"\n'
            f'[[tiers]]\nstore = "memory"\nlimit = "{memory}"\n[[tiers]]\nstore = "disk"\nlimit = "2 GiB"\n'
        )
        run = "from foretold.cli import main; main()"
        command = [sys.executable, "-c", run, "serve", "--config", str(settings), "--port", "0", "--json"]
        super().__init__(name, command, folder, core=SERVER_CORE)

    def hits(self) -> dict[str, int]:
        """Hits so far of each tier, by its name."""
        token = (self._data / "admin-token").read_text().strip()
        told = fetched_json(f"{self.url}/-/stats", {"authorization": f"Bearer {token}"})
        return {tier["name"]: tier["hits"] for tier in told["tiers"]}


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def fetched_json(url: str, headers: dict[str, str] | None = None) -> Any:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers or {}), timeout=10) as answer:
        return json.load(answer)
