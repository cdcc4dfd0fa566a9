"""Power cuts on a real file system: an image, shut down as if the power had gone, and mounted again."""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.sequence import STEPS, held_in, wrongs
from tests.faults.strace import ROOT

SHUTDOWN = 0x8004587D
WITHOUT_FLUSHING_THE_LOG = 2


def did(*command: str) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"`{' '.join(command)}` needs root and loop devices: {ran.stderr.strip()}"


@contextmanager
def mounted(image: Path, at: Path) -> Iterator[Path]:
    at.mkdir(exist_ok=True)
    did("mount", "-o", "loop", str(image), str(at))
    try:
        yield at
    finally:
        did("umount", str(at))


def cut_power(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.ioctl(opened, SHUTDOWN, WITHOUT_FLUSHING_THE_LOG.to_bytes(4, sys.byteorder))
    finally:
        os.close(opened)


async def acknowledged_before_a_cut(folder: Path, after: int) -> int:
    """Runs the sequence, cuts the power after so many acknowledged steps; how many were acknowledged by then."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.faults.sequence", str(folder / "answers"),
        cwd=ROOT, env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout is not None
    said = b""
    while len(re.findall(rb"^done", said, re.M)) < after:
        said += await process.stdout.readline()
    cut_power(folder)
    process.kill()
    said += await process.stdout.read()
    await process.wait()
    return len(re.findall(rb"^done", said, re.M))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
async def test_after_a_power_cut_on_ext4_nothing_is_wrong_and_at_most_the_last_batch_is_lost(tmp_path, seed):
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(128 * 2**20)
    did("mkfs.ext4", "-q", str(image))
    with mounted(image, tmp_path / "disk") as disk:
        acknowledged = await acknowledged_before_a_cut(disk, random.Random(seed).randrange(1, len(STEPS)))

    with mounted(image, tmp_path / "disk") as disk:
        held, orphans = await held_in(disk / "answers")

    first, last = max(0, acknowledged - 1), min(acknowledged + 1, len(STEPS))
    touched = frozenset(step.name for step in STEPS[first:last])
    assert wrongs(held, at_least=first, at_most=last, may_be_gone=touched) == []
    assert orphans == []
