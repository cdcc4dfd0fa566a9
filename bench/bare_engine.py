"""The engine alone, with the parameters that a node gives it, on a port instead of a unix socket.

python bench/bare_engine.py LAUNCH PORT

LAUNCH is a file with what a host process is told at its start.  Prints where it listens as one JSON line.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from threading import Event

import xllamacpp

from foretold.models.engine import params_of
from foretold.models.launch import launch_of


def main() -> None:
    params = params_of(launch_of(Path(sys.argv[1]).read_bytes()), xllamacpp)
    params.hostnames = ["127.0.0.1"]
    params.port = int(sys.argv[2])
    server = xllamacpp.Server(params)
    print(json.dumps({"url": f"http://127.0.0.1:{sys.argv[2]}"}), flush=True)
    Event().wait()
    del server


if __name__ == "__main__":
    main()
