"""Runs the sequence under strace: to be killed at a system call, to have calls fail, or to have them written down."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
WRITES = ("pwrite64", "pwritev", "writev", "write", "fdatasync", "fsync", "rename", "unlink", "ftruncate", "fallocate")
_CALL = re.compile(r"^(?:\[pid +\d+\] |\d+ +)?(\w+)\(")


async def traced(*options: str, folder: Path, program: str = "tests.faults.sequence") -> tuple[int, bytes]:
    """Exit code and output of a program that ran on a folder under strace."""
    strace = shutil.which("strace")
    assert strace is not None, "strace is missing, which the fault tests need: tools/apt strace"
    command = [strace, "-f", "-qq", *options, sys.executable, "-m", program, str(folder)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode is not None
    assert b"Operation not permitted" not in err, f"strace may not trace here: {err.decode()[:200]}"
    return process.returncode, out


async def write_calls(folder: Path, log: Path) -> Counter[str]:
    """How often each system call that writes is made by the thread that makes it most."""
    code, _ = await traced("-o", str(log), "-e", f"trace={','.join(WRITES)}", folder=folder)
    assert code == 0
    counted: Counter[tuple[str, str]] = Counter()
    for line in log.read_text().splitlines():
        if (call := _CALL.match(line)) is not None:
            counted[call.group(1), line.split()[0]] += 1
    most: Counter[str] = Counter()
    for (name, _), count in counted.items():
        most[name] = max(most[name], count)
    return most
