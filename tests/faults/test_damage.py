"""A damaged or truncated store: never a wrong answer, never a crash loop, and soon a store that works again."""

from __future__ import annotations

import random
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.faults.cases import Cases, running_cases
from tests.faults.damages import PAGE_BYTES, damage, truncate, used_pages

COUNT = 90


@pytest.fixture
async def cases() -> AsyncIterator[Cases]:
    async with running_cases() as running:
        yield running


@pytest.fixture
async def whole(cases: Cases, tmp_path: Path) -> Path:
    """A store that has lived a little and is in order."""
    folder = tmp_path / "whole"
    made = await cases.run("make", folder, COUNT)
    assert made == {"ended": 0, "found": COUNT, "wrong": 0}
    return folder


def wrong(told: dict[str, object]) -> str | None:
    """Why a case didn't end well."""
    if told["ended"] != 0:
        return f"ended with {told['ended']}"
    if told["wrong"]:
        return f"{told['wrong']} wrong answers"
    if told["kept"] != told["new"]:
        return f"{told['kept']} of {told['new']} new answers kept"
    if not told["adds_up"]:
        return "its counts don't add up"
    return None


async def damaged(cases: Cases, whole: Path, seeds: range) -> list[str]:
    found = []
    for seed in seeds:
        folder = whole.with_name(f"damaged-{seed}")
        shutil.copytree(whole, folder)
        kind = damage(folder / "data.mdb", seed)
        if (why := wrong(await cases.run("use", folder, COUNT))) is not None:
            found.append(f"seed {seed}, {kind}: {why}")
        remove(folder)
    return found


async def truncated(cases: Cases, whole: Path, seeds: range) -> list[str]:
    found = []
    for seed in seeds:
        folder = whole.with_name(f"cut-{seed}")
        shutil.copytree(whole, folder)
        size = truncate(folder / "data.mdb", seed)
        told = await cases.run("use", folder, COUNT)
        if (why := wrong(told)) is not None or (size and not told["set_aside"]):
            found.append(f"seed {seed}, cut at {size}: {why or 'not set aside'}")
        remove(folder)
    return found


async def truncated_live(cases: Cases, whole: Path, seeds: range) -> list[str]:
    found = []
    for seed in seeds:
        folder = whole.with_name(f"live-{seed}")
        shutil.copytree(whole, folder)
        size = random.Random(seed).randrange(used_pages(folder / "data.mdb") * PAGE_BYTES)
        first = await cases.run("use", folder, COUNT, cut_at=size)
        if first.get("wrong"):
            found.append(f"seed {seed}, cut live at {size}: {first['wrong']} wrong answers")
        # The process that had the file open may have died of it; the next one never does.
        if (why := wrong(await cases.run("use", folder, COUNT))) is not None:
            found.append(f"seed {seed}, started after a live cut at {size}: {why}")
        remove(folder)
    return found


def remove(folder: Path) -> None:
    for each in folder.parent.glob(f"{folder.name}*"):
        shutil.rmtree(each)


async def test_a_whole_store_is_used_as_it_is(cases, whole):
    told = await cases.run("use", whole, COUNT)

    assert wrong(told) is None
    assert (told["found"], told["errors"], told["set_aside"], told["told"]) == (COUNT, 0, False, [])


async def test_a_damaged_store_gives_no_wrong_answer_and_the_process_serves_on(cases, whole):
    assert await damaged(cases, whole, range(90)) == []


async def test_a_truncated_store_is_set_aside(cases, whole):
    assert await truncated(cases, whole, range(30)) == []


async def test_after_a_truncation_under_a_running_process_the_next_one_serves(cases, whole):
    assert await truncated_live(cases, whole, range(12)) == []


@pytest.mark.slow
async def test_many_damaged_stores_give_no_wrong_answer(cases, whole):
    assert await damaged(cases, whole, range(90, 2000)) == []


@pytest.mark.slow
async def test_many_truncated_stores_are_set_aside(cases, whole):
    assert await truncated(cases, whole, range(30, 330)) == []
    assert await truncated_live(cases, whole, range(12, 130)) == []
