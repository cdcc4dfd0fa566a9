"""A power cut at any moment: the store opens or is set aside, nothing is wrong, and at most the last batch is lost."""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path

import pytest

from tests.faults.recording import RECORDED, Disk, Event, events
from tests.faults.sequence import STEPS, held_in, wrongs
from tests.faults.strace import traced


async def recorded(tmp_path: Path) -> list[Event]:
    """All writes of one run of the sequence."""
    folder, log = tmp_path / "recorded", tmp_path / "log"
    folder.mkdir()
    options = ("-y", "-xx", "-s", "1000000", "-o", str(log), "-e", f"trace={RECORDED}")
    code, _ = await traced(*options, folder=folder)
    assert code == 0
    return events(_plain(log.read_text()), folder)


def _plain(log: str) -> str:
    """-xx writes the paths of descriptors as hex, too."""
    return re.sub(
        r"<((?:\\x[0-9a-f]{2})+)>", lambda m: f"<{bytes.fromhex(m.group(1).replace(chr(92) + 'x', '')).decode()}>", log
    )


async def wrongs_after(all_events: list[Event], moment: int, seed: int, folder: Path) -> list[str]:
    """What is wrong after a cut following so many events."""
    disk = Disk()
    for event in all_events[:moment]:
        disk.do(event)
    disk.cut(folder, random.Random(seed))
    acknowledged = sum(said.startswith(b"done") for said in disk.said)
    held, orphans = await held_in(folder)
    shutil.rmtree(folder)
    # Steps are awaited one by one, so each was a batch.  The last one may be lost, and the file that it replaced is gone.
    first, last = max(0, acknowledged - 1), min(acknowledged + 1, len(STEPS))
    touched = frozenset(step.name for step in STEPS[first:last])
    found = wrongs(held, at_least=first, at_most=last, may_be_gone=touched)
    found += [f"{len(orphans)} files that no entry names were left"] if orphans else []
    return [f"cut after event {moment}, seed {seed}: {line}" for line in found]


async def cuts(tmp_path: Path, count: int) -> list[str]:
    all_events = await recorded(tmp_path)
    chance = random.Random(7)
    found = []
    for seed in range(count):
        moment = chance.randrange(len(all_events) + 1)
        found += await wrongs_after(all_events, moment, seed, tmp_path / f"cut-{seed}")
    return found


async def test_the_recording_rebuilds_the_very_files(tmp_path):
    """Else the cuts would prove nothing."""
    disk = Disk()
    for event in await recorded(tmp_path):
        disk.do(event)
    disk.sync_all()
    disk.cut(tmp_path / "rebuilt", random.Random(0))

    for kept in sorted((tmp_path / "recorded").rglob("*")):
        if kept.is_file() and kept.name != "lock.mdb":
            assert (tmp_path / "rebuilt" / kept.relative_to(tmp_path / "recorded")).read_bytes() == kept.read_bytes()


async def test_after_a_power_cut_nothing_is_wrong_and_at_most_the_last_batch_is_lost(tmp_path):
    assert await cuts(tmp_path, 100) == []


@pytest.mark.slow
async def test_after_any_of_many_power_cuts_nothing_is_wrong(tmp_path):
    assert await cuts(tmp_path, 1500) == []
