"""What a hit at the edge costs in local workerd, beside the plainest Workers that cache, in one interleaved run.

python bench/edge.py [--rounds N] [--seconds S] [--only TEXT] [--json FILE]

Local workerd and miniflare are Cloudflare's open-source runtime and simulator, not its network: the multiples say what
our code adds, the figures themselves nothing about a data centre.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path

from answers import WHOLE
from cases import CHAT, OTHER_BYTES, SAME, Case
from figures import Measured, table
from run import Wrong, asked_once, circumstances, first_line, measured
from servers import HERE, SERVER_CORE, Mock, Server, fetched_json

KINDS = ("plain-kv", "edge-kv", "edge", "plain-map", "edge-memory")
OF_THE_EDGE = {"edge-kv": "kv", "edge": "memory", "edge-memory": "memory"}

CASES = (
    Case("plain Worker, KV", "plain-kv", 64, SAME, "plain Worker, KV"),
    Case("edge, hit from KV", "edge-kv", 64, SAME, "plain Worker, KV"),
    Case("edge, hit from memory", "edge", 64, SAME, "plain Worker, KV"),
    Case("plain Worker, KV, 1 connection", "plain-kv", 1, SAME, "plain Worker, KV, 1 connection"),
    Case("edge, hit from KV, 1 connection", "edge-kv", 1, SAME, "plain Worker, KV, 1 connection"),
    Case("edge, hit from memory, 1 connection", "edge", 1, SAME, "plain Worker, KV, 1 connection"),
    Case("plain Worker, Map", "plain-map", 64, SAME, "plain Worker, Map"),
    Case("edge alone, hit from memory", "edge-memory", 64, SAME, "plain Worker, Map"),
    Case("edge alone, hit, other bytes", "edge-memory", 64, OTHER_BYTES, "plain Worker, Map"),
)


class Worker(Server):
    """A Worker of a kind in real workerd; see workers/serve.mjs."""

    def __init__(self, kind: str, upstream: str, folder: Path):
        command = ["node", str(HERE / "workers" / "serve.mjs"), kind, upstream]
        super().__init__(kind, command, folder, core=SERVER_CORE)

    def hits(self) -> int:
        """Hits so far of the tier that shall answer."""
        told = fetched_json(f"{self.url}/-/stats", {"authorization": "Bearer bench"})
        return int(next(tier["hits"] for tier in told["tiers"] if tier["name"] == OF_THE_EDGE[self.name]))


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--rounds", type=int, default=3, help="how often each case takes its turn")
    asked.add_argument("--seconds", type=int, default=3, help="how long each turn lasts")
    asked.add_argument("--only", default="", help="only cases with this in their name, and those they stand beside")
    asked.add_argument("--json", type=Path, help="a file for all that was measured")
    args = asked.parse_args()
    wanted = {case.beside for case in CASES if args.only in case.name}
    cases = [case for case in CASES if args.only in case.name or case.name in wanted]
    try:
        check_machine()
        with workers() as running:
            before = hits(running)
            rounds = measured(cases, running, rounds=args.rounds, seconds=args.seconds)
            check_hits(before, hits(running), rounds, cases)
    except (Wrong, RuntimeError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    told = circumstances() | {"node": first_line(["node", "--version"])}
    print("\n".join(f"{name}: {value}" for name, value in told.items()))
    print(f"{args.rounds} rounds of {args.seconds} s\n\n{table(cases, rounds)}")
    if args.json:
        whole = {"circumstances": told, "rounds": {name: [asdict(m) for m in got] for name, got in rounds.items()}}
        args.json.write_text(json.dumps(whole, indent=2) + "\n")
    return 0


def check_machine() -> None:
    """Raises Wrong where nothing can be measured."""
    missing = [name for name in ("wrk", "node") if shutil.which(name) is None]
    if missing:
        raise Wrong(f"{' and '.join(missing)} missing: apt-get install wrk nodejs")
    if not (HERE.parent / "worker" / "node_modules" / "miniflare").is_dir():
        raise Wrong("worker/node_modules is missing: run `make edge` once")


@contextmanager
def workers() -> Iterator[dict[str, Server]]:
    """All of them by name, each with the answer that is asked for later."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="foretold-bench-")))
        mock = Mock(folder)
        stack.callback(mock.stop)
        running: dict[str, Server] = {"mock": mock}
        for kind in KINDS:
            worker = Worker(kind, mock.url, folder)
            stack.callback(worker.stop)
            running[kind] = worker
            for _ in range(2):
                status, came = asked_once(worker.url + CHAT, SAME)
            if came != WHOLE or (kind in OF_THE_EDGE and "; hit" not in status):
                raise Wrong(f"asked again, {kind} did not answer what it had: {status!r}, {len(came)} bytes")
        yield running


def hits(running: dict[str, Server]) -> dict[str, int]:
    return {
        name: worker.hits() for name, worker in running.items() if name in OF_THE_EDGE and isinstance(worker, Worker)
    }


def check_hits(
    before: dict[str, int], after: dict[str, int], rounds: dict[str, list[Measured]], cases: list[Case]
) -> None:
    """Raises Wrong if less was answered from the tier that shall answer than was asked."""
    for name in before:
        asked = sum(m.requests for case in cases if case.server == name for m in rounds[case.name])
        if after[name] - before[name] < asked:
            raise Wrong(f"{name}: of {asked} requests {after[name] - before[name]} came from {OF_THE_EDGE[name]}")


if __name__ == "__main__":
    sys.exit(main())
