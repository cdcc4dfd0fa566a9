"""The program of a host process for engine `command`: another program that speaks OpenAI's protocol, watched by us.

Run as `python -m foretold.models.command_engine`, as `engine.py` is: settings on stdin, one line on stdout, logs on
stderr.  The program is begun without a shell, listens where we say, and ends with us, whatever ends us.
"""

from __future__ import annotations

import contextlib
import ctypes
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from foretold.models.engine import confine
from foretold.models.handshake import drop_inherited_files, keep_stdout_to_ourselves, tell
from foretold.models.launch import Launch, Own, launch_of

_PR_SET_PDEATHSIG = 1
_LOOK_EVERY_S = 0.05
_ONE_LOOK_S = 5.0
_GRACE_S = 1.0
_is_ending = threading.Event()


def main() -> int:
    drop_inherited_files()
    answers = keep_stdout_to_ourselves()
    launch = launch_of(sys.stdin.buffer.readline())
    confine(launch)
    # Not by a signal: we take along whatever the program has begun.
    _die_with_parent(0)
    own = launch.own
    assert own is not None
    try:
        child = _begun(launch, own)
    except OSError as e:
        tell(
            answers, {"failed": f"{own.command[0]!r} can't be started: {e.strerror}: give its whole path in `command`"}
        )
        return 0
    ending = threading.Thread(target=_end_with_stdin, args=(child, launch), daemon=True)
    ending.start()
    failed = _why_not_ready(child, launch, own)
    if failed is not None:
        tell(answers, {"failed": failed})
        _stop(child)
        return 0
    tell(answers, {"ready": True, "engine": "command"})
    code = child.wait()
    if _is_ending.is_set():
        ending.join()  # it ends us
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)  # what it left behind; our host kills what stays
    return _code_of(code)


def words_of(own: Own, socket_path: str) -> list[str]:
    """The program and its arguments, with where it is to listen."""
    return [word.replace("{port}", str(own.port)).replace("{socket}", socket_path) for word in own.command]


def _begun(launch: Launch, own: Own) -> subprocess.Popen[bytes]:
    """Raises OSError."""
    given = {name: value.replace("{api_key}", launch.api_key) for name, value in own.environment}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"FORETOLD_API_KEY": launch.api_key, **given}
    return subprocess.Popen(  # noqa: S603 - of the settings, no shell
        words_of(own, launch.socket),
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        stderr=sys.stderr,
        env=environment,
        preexec_fn=lambda: _die_with_parent(signal.SIGKILL),
    )


def _why_not_ready(child: subprocess.Popen[bytes], launch: Launch, own: Own) -> str | None:
    """None once it serves."""
    deadline_s = time.monotonic() + own.load_s
    found = "nothing listens there"
    while time.monotonic() < deadline_s:
        code = child.poll()
        if code is not None:
            return f"{own.command[0]!r} {_how_it_ended(code)} before it served"
        try:
            status = _status(launch, own)
            if status == 200:
                return None
            found = f"it answers {status}"
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(_LOOK_EVERY_S)
    return f"{own.command[0]!r} did not answer 200 at {own.ready} within {own.load_s:g} s ({found}): see `ready`"


def _status(launch: Launch, own: Own) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", own.port, timeout=_ONE_LOOK_S)
    if not own.port:
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(_ONE_LOOK_S)
        connection.sock.connect(launch.socket)
    with contextlib.closing(connection):
        connection.request("GET", own.ready, headers={"authorization": f"Bearer {launch.api_key}"})
        return connection.getresponse().status


def _end_with_stdin(child: subprocess.Popen[bytes], launch: Launch) -> None:
    """Whoever began us closes it, or dies."""
    sys.stdin.buffer.read()
    _is_ending.set()
    _stop(child)
    with contextlib.suppress(OSError):
        Path(launch.socket).unlink(missing_ok=True)
    os.killpg(0, signal.SIGKILL)  # us, and what the program left behind


def _stop(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _how_it_ended(code: int) -> str:
    return f"exited with {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"


def _code_of(code: int) -> int:
    """As shells tell an end by a signal."""
    return code if code >= 0 else 128 - code


def _die_with_parent(number: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main())
