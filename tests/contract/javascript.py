"""The programs of worker/test/ that tell what the JavaScript side makes of something."""

from __future__ import annotations

import subprocess
from pathlib import Path

WORKER_TESTS = Path(__file__).parents[2] / "worker" / "test"


def lines_of(script: str, *arguments: str, told: str = "") -> list[str]:
    """What the program writes, line by line."""
    run = subprocess.run(
        ["node", WORKER_TESTS / script, *arguments], input=told, capture_output=True, encoding="utf-8", check=True
    )
    *lines, rest = run.stdout.split("\n")
    assert rest == ""
    return lines
