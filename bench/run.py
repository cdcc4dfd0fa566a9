"""What a hit and a miss cost, beside the barest servers that can be written, in one interleaved run.

python bench/run.py [--rounds N] [--seconds S] [--only TEXT] [--json FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.metadata
import itertools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path

from answers import TRANSCRIPT, WHOLE
from cases import CASES, CHAT, CREDENTIAL, EVENTS, KEYS_ON_DISK, MOST_IN_MEMORY, NEW, NUMBER, OTHER_BYTES, SAME, Case
from figures import Measured, table
from others import nginx, varnish
from servers import HERE, LOAD_CORE, SERVER_CORE, Mock, Node, Server

_LIBRARIES = ("uvicorn", "httptools", "uvloop", "aiohttp", "orjson", "msgspec", "lmdb")
_WARM_UP_S = 1


class Wrong(Exception):
    """What was measured is not what should have been."""


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--rounds", type=int, default=3, help="how often each case takes its turn")
    asked.add_argument("--seconds", type=int, default=3, help="how long each turn lasts")
    asked.add_argument("--only", default="", help="only cases with this in their name, and those they stand beside")
    asked.add_argument("--json", type=Path, help="a file for all that was measured")
    args = asked.parse_args()
    cases = chosen(args.only)
    try:
        check_machine()
        with servers() as running:
            rounds = measured(cases, running, rounds=args.rounds, seconds=args.seconds)
    except (Wrong, RuntimeError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    told = circumstances()
    print("\n".join(f"{name}: {value}" for name, value in told.items()))
    print(f"{args.rounds} rounds of {args.seconds} s\n\n{table(cases, rounds)}")
    if args.json:
        whole = {"circumstances": told, "rounds": {name: [asdict(m) for m in got] for name, got in rounds.items()}}
        args.json.write_text(json.dumps(whole, indent=2) + "\n")
    return 0


def chosen(only: str) -> list[Case]:
    """The cases with this in their name, and those they stand beside, in turn."""
    wanted = {case.name for case in CASES if only in case.name}
    while more := {case.beside for case in CASES if case.name in wanted} - wanted:
        wanted |= more
    return [case for case in CASES if case.name in wanted]


def check_machine() -> None:
    """Raises Wrong where nothing can be measured."""
    if not sys.platform.startswith("linux") or not {SERVER_CORE, LOAD_CORE} <= os.sched_getaffinity(0):
        raise Wrong("the benchmark needs Linux and its cores 0 and 1: one for the server, one for the load")
    missing = [name for name in ("wrk", "nginx", "varnishd") if shutil.which(name) is None]
    if missing:
        raise Wrong(f"{' and '.join(missing)} missing: apt-get install wrk nginx-light varnish varnish-modules")


@contextmanager
def servers() -> Iterator[dict[str, Server]]:
    """All of them by name, each asked so far that its cases find what they need."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="foretold-bench-")))
        folder.chmod(0o755)  # Varnish reads its settings as a user of its own
        mock = Mock(folder)
        stack.callback(mock.stop)
        running: dict[str, Server] = {"mock": mock}

        def started(server: Server) -> None:
            stack.callback(server.stop)
            running[server.name] = server

        started(Server("bare", [sys.executable, str(HERE / "bare.py")], folder, core=SERVER_CORE))
        started(Server("proxy", [sys.executable, str(HERE / "proxy.py"), mock.url], folder, core=SERVER_CORE))
        started(nginx(mock.url, folder))
        started(varnish(mock.url, folder))
        started(Node("node-two", mock.url, folder, workers=2))
        for name, memory in (("node", "256 MiB"), ("node-misses", "256 MiB"), ("node-small", "1 MiB")):
            started(Node(name, mock.url, folder, memory=memory))
        prepare(running)
        yield running


def prepare(running: dict[str, Server]) -> None:
    """Asks what later must be hits, twice; raises Wrong if the second answer is not the recorded one."""
    url = running["node"].url + CHAT
    for body, answer in ((SAME, WHOLE), (OTHER_BYTES, WHOLE), (EVENTS, TRANSCRIPT)):
        for number in (1, 2):
            status, came = asked_once(url, body.replace(NUMBER, str(number)))
        if "; hit" not in status or came != answer:
            raise Wrong(f"asked again, the node did not answer from memory: {status!r}, {len(came)} bytes")
    asked_once(running["node-two"].url + CHAT, SAME)
    for name in ("nginx", "varnish"):
        for body in (SAME, EVENTS):
            asked_once(running[name].url + CHAT, body)
    for number in range(KEYS_ON_DISK):
        asked_once(running["node-small"].url + CHAT, NEW.replace(NUMBER, f"{number:016d}"))
    running["node-small"].quiet_cpu_ns()


def asked_once(url: str, body: str) -> tuple[str, bytes]:
    """Cache-Status and body of an answer."""
    headers = {"content-type": "application/json", "authorization": CREDENTIAL}
    request = urllib.request.Request(url, body.encode(), headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.headers.get("cache-status", ""), answer.read()


def measured(
    cases: Sequence[Case], running: dict[str, Server], *, rounds: int, seconds: int
) -> dict[str, list[Measured]]:
    """Every case in every round; each second round in the opposite order."""
    got: dict[str, list[Measured]] = {case.name: [] for case in cases}
    # Numbers that were never asked before, in this run or in one before it.
    numbers = itertools.count(time.time_ns() // 1000, 10**9)
    for case in cases:
        load(case, running, seconds=_WARM_UP_S, first=next(numbers))
    for number in range(rounds):
        for case in cases if number % 2 == 0 else tuple(reversed(cases)):
            got[case.name].append(load(case, running, seconds=seconds, first=next(numbers)))
            cpu_us = got[case.name][-1].cpu_us
            print(f"round {number + 1} of {rounds}: {case.name}, {cpu_us:.1f} µs", file=sys.stderr, flush=True)
    return got


def load(case: Case, running: dict[str, Server], *, seconds: int, first: int) -> Measured:
    """One turn.  Raises Wrong for any answer that isn't the expected one, or from elsewhere than expected."""
    server, mock = running[case.server], running["mock"]
    assert isinstance(mock, Mock)
    calls, hits = mock.calls(), hits_of(server, case)
    cpu_ns = server.quiet_cpu_ns()
    told = run_wrk(case, server.url, seconds=seconds, first=0 if case.numbers else first)
    spent_ns = server.quiet_cpu_ns() - cpu_ns
    requests, calls, hits = told["requests"], mock.calls() - calls, hits_of(server, case) - hits
    if told["wrong"] or told["failed"]:
        raise Wrong(f"{case.name}: {told['wrong']} wrong answers and {told['failed']} failures in {requests} requests")
    # Those on their way when the load ended are answered, but not counted by it.
    if case.tier is None and not requests <= calls <= requests + case.connections:
        raise Wrong(f"{case.name}: {requests} misses made {calls} calls of the upstream")
    if case.tier is not None and calls:
        raise Wrong(f"{case.name}: {calls} of {requests} requests reached the upstream")
    if case.tier and hits < requests - (MOST_IN_MEMORY if case.tier == "disk" else 0):
        raise Wrong(f"{case.name}: {hits} of {requests} requests were answered from {case.tier}")
    return Measured(
        cpu_us=spent_ns / 1000 / requests,
        requests=requests,
        per_s=requests / told["took_us"] * 1e6,
        p50_us=told["p50_us"],
        p99_us=told["p99_us"],
        upstream_calls=calls,
    )


def hits_of(server: Server, case: Case) -> int:
    return server.hits()[case.tier] if isinstance(server, Node) and case.tier else 0


def run_wrk(case: Case, url: str, *, seconds: int, first: int) -> dict[str, int]:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as body:
        body.write(case.body)
        body.flush()
        how = ["-t1", f"-c{case.connections}", f"-d{seconds}s", "--timeout", "10s", "-s", str(HERE / "load.lua")]
        numbers = [str(case.answer_bytes), str(first), str(case.numbers)]
        done = subprocess.run(
            ["wrk", *how, url + case.path, "--", body.name, *numbers],
            capture_output=True,
            text=True,
            timeout=seconds + 60,
            preexec_fn=lambda: os.sched_setaffinity(0, {LOAD_CORE}),
        )
    found = re.search(r"^JSON (.*)$", done.stdout, re.MULTILINE)
    if found is None or not (told := json.loads(found[1]))["requests"]:
        raise Wrong(f"{case.name}: the load did not run:\n{done.stdout}{done.stderr}")
    return dict(told)


def circumstances() -> dict[str, str]:
    """What the figures depend on."""
    processor = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    versions = [f"{name} {importlib.metadata.version(name)}" for name in _LIBRARIES]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        versions += [first_line(command) for command in (["wrk", "-v"], ["nginx", "-v"], ["varnishd", "-V"])]
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": ", ".join(
            [processor[1] if processor else "?", f"{os.cpu_count()} cores", f"Linux {platform.release()}"]
        ),
        "load": " ".join(f"{x:.1f}" for x in os.getloadavg()),
        "versions": ", ".join([f"Python {platform.python_version()}", *versions]),
    }


def first_line(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    return (done.stdout + done.stderr).split("\n", 1)[0].split(" [")[0]


if __name__ == "__main__":
    sys.exit(main())
