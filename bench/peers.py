"""Foretold in another benchmark's run: the peers' own, which measures them side by side.

python bench/peers.py FOLDER WORK [options of its `bench` command]

FOLDER holds that benchmark (`run.py`), WORK takes what it installs, its logs and results.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from servers import Node

# Where its mock upstream listens once it runs.
UPSTREAM = "http://127.0.0.1:9100"


def main() -> int:
    if len(sys.argv) < 3 or not (Path(sys.argv[1]) / "run.py").is_file():
        print(__doc__, file=sys.stderr)
        return 2
    program, work, options = Path(sys.argv[1]).resolve() / "run.py", Path(sys.argv[2]).resolve(), sys.argv[3:]
    work.mkdir(parents=True, exist_ok=True)
    run = [sys.executable, str(program), "--work", str(work)]
    set_up = work / "set-up"
    if not set_up.exists():
        subprocess.run([*run, "setup"], check=True)
        set_up.touch()
    with tempfile.TemporaryDirectory(prefix="foretold-bench-") as folder:
        node = Node("foretold", UPSTREAM, Path(folder), memory="1 GiB")
        try:
            target = ["--target", f"foretold={node.url}", "-o", str(work / "results.json")]
            return subprocess.run([*run, "bench", *target, *options]).returncode
        finally:
            node.stop()


if __name__ == "__main__":
    sys.exit(main())
