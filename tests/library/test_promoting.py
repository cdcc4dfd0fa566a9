"""Models that get another revision while they are asked: out of a real library, with engines that say which they are."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from foretold.config import load
from foretold.errors import Untrusted
from foretold.models.choices import Choices
from foretold.models.library.describing import Said
from foretold.models.library.push import push
from foretold.models.library.shelf import Shelf
from foretold.models.library.trust import new_key
from foretold.models.renewal import Renewal
from foretold.models.weights import held, weights_of
from tests.fakes import answering_program_path
from tests.library.gguf_file import model_file
from tests.library.worlds import Told, store
from tests.running import Client, running
from tests.waiting import until

# What one revision is predicted to take is some 41 MB.
BESIDE = "pool = { memory = '200 MB' }"
ONE_AT_ONCE = "pool = { memory = '60 MB' }"


class Town:
    """A library with revisions of one model, and nodes that run it; the weights of each are called by their digest."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.key = folder / "team.key"
        self.public = new_key(self.key)
        self.library = f"file://{folder}/library"
        (folder / "library").mkdir()
        self.models = folder / "models"
        self.models.mkdir()
        (self.models / "tells-weights").touch()
        self.blobs: dict[str, str] = {}

    async def pushed(self, seed: int, *, signed: bool = True, **said: object) -> str:
        """A revision, which the library's name stands for from now on."""
        path = model_file(self.folder / f"tiny-{seed}.gguf", 20_000, seed=seed)
        told = Said(name="tiny", context=256, max_tokens=16, parallel=2, **said)  # type: ignore[arg-type]
        there = store(self.library, "http://127.0.0.1:9")
        pushed = await push(there, {path.name: path}, told, signing_key=self.key if signed else None, tell=Told())
        (file,) = pushed.manifest.files
        self.blobs[pushed.revision] = file.blob
        return pushed.revision

    def settings(self, *, room: str = BESIDE, pin: str = "", each: str = "", keys: bool = True) -> str:
        revision = f'revision = "{pin}"' if pin else ""
        library = f'[library]\ntrusted = ["{self.public}"]' if keys else ""
        return f'{room}\n[models.small]\nsource = "{self.library}"\nmodel = "tiny"\n{revision}\n{each}\n{library}'

    @asynccontextmanager
    async def node(self, settings: str, *, tell: Told | None = None) -> AsyncIterator[Client]:
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        choices = Choices(data / "promoted.json")
        with held() as using:
            config = load(settings)
            weights = await weights_of(config, self.models, using=using, tell=tell or Told(), choices=choices)
            async with running(
                settings,
                data,
                weights=weights,
                engine=(answering_program_path(),),
                brings=lambda read: Renewal(self.models, using=using, choices=choices, read=read),
            ) as node:
                yield node
        assert self.processes() == [], "an engine was left behind"
        assert not (data / "run").exists() or list((data / "run").iterdir()) == [], "a socket was left behind"

    def processes(self) -> list[int]:
        log = self.models / "loads"
        pids = [int(line.split()[1]) for line in log.read_text().splitlines()] if log.exists() else []
        return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.fixture
def town(tmp_path) -> Town:
    return Town(tmp_path)


async def promote(node: Client, revision: str = "") -> tuple[int, dict]:
    asked = {"model": "small", **({"revision": revision} if revision else {})}
    answered = await node.post("/-/models/promote", asked, node.admin_headers)
    return answered.status, answered.json


async def shown(node: Client) -> str:
    return str((await node.send("GET", "/v1/models/small")).json["revision"])


async def said(node: Client, text: str) -> str:
    answered = await node.chat(text, model="small")
    assert answered.status == 200, answered.body
    return answered.text.removeprefix("I am ")


@pytest.mark.parametrize("room", [BESIDE, ONE_AT_ONCE])
async def test_ten_promotions_under_load_fail_nobody_and_each_answer_is_kept_under_its_own_revision(town, room):
    first, second = await town.pushed(1), await town.pushed(2)
    async with town.node(town.settings(room=room, pin="", each="queue = 500")) as node:
        pool = node.assembled.models.pool
        numbers = iter(range(100_000))
        is_over = False
        keys: dict[str, str] = {}
        failed = []

        async def ask_on() -> None:
            while not is_over:
                number = next(numbers)
                answered = await node.chat(f"question {number}", model="small", stream=number % 2 == 0)
                if answered.status != 200 or not answered.text.startswith("I am sha256-"):
                    failed.append((answered.status, answered.body))
                    return
                (key,) = re.findall(r'key="?([0-9a-f]{64})', answered.cache_status)
                keys[key] = answered.text.removeprefix("I am ")

        await said(node, "first")
        files_before = len(os.listdir("/proc/self/fd"))
        asking = [asyncio.create_task(ask_on()) for _ in range(10)]
        told = []
        for turn in range(10):
            count = len(keys)
            await until(lambda count=count: len(keys) > count + 5 or failed)
            told.append(await promote(node, first if turn % 2 == 0 else second))
        is_over = True
        await asyncio.gather(*asking)

        assert failed == []
        assert [(status, one["promoted"]) for status, one in told] == [(200, True)] * 10
        assert len({one["revision"] for _, one in told}) == 2
        assert len(set(keys.values())) == 2
        revisions: dict[str, set[str]] = {}
        for key, weights in keys.items():
            record = await node.send("GET", f"/-/cache/record?key={key}", headers=node.admin_headers)
            revisions.setdefault(record.json["record"]["revision"], set()).add(weights)
        assert sorted(map(len, revisions.values())) == [1, 1]
        assert pool.taken_bytes <= pool.budget_bytes
        await until(lambda: len(town.processes()) == 1)
        await node.rest()
        await until(lambda: len(os.listdir("/proc/self/fd")) <= files_before + 2)
        assert len(pool.told()[0]["others"]) == 0


async def test_an_answer_in_progress_ends_on_the_old_revision_while_the_new_one_answers_others(town):
    first = await town.pushed(1)
    async with town.node(town.settings()) as node:
        slow = asyncio.create_task(node.chat("slowly", model="small"))
        await until(lambda: node.assembled.models.pool.told()[0]["answering"] == 1)
        second = await town.pushed(2)
        status, told = await promote(node)
        quick = await said(node, "quickly")
        rows = (await node.send("GET", "/-/models", headers=node.admin_headers)).json["models"]
        (town.models / "go").touch()

        assert (status, told["promoted"]) == (200, True)
        assert quick == town.blobs[second]
        assert [(other["standing"], other["answering"]) for other in rows[0]["others"]] == [("replaced", 1)]
        assert (await slow).text == f"I am {town.blobs[first]}"
        await until(lambda: len(town.processes()) == 1)


async def test_the_list_of_models_tells_the_new_revision_and_what_was_kept_of_the_old_one_is_not_given(town):
    first = await town.pushed(1)
    async with town.node(town.settings()) as node:
        old = await said(node, "the same")
        before = await shown(node)
        second = await town.pushed(2)
        await promote(node)
        after = await shown(node)
        new = await node.chat("the same", model="small")
        again = await node.chat("the same", model="small")
        await promote(node, first)
        back = await node.chat("the same", model="small")

    assert (old, new.text) == (town.blobs[first], f"I am {town.blobs[second]}")
    assert before != after
    assert not new.is_hit
    assert again.is_hit
    assert (back.is_hit, back.text) == (True, f"I am {town.blobs[first]}")


async def test_a_revision_that_does_not_load_leaves_everything_as_it_was_and_says_why(town):
    first = await town.pushed(1)
    async with town.node(town.settings()) as node:
        second = await town.pushed(2)
        (town.models / "refuses").write_text(town.blobs[second])
        before = await shown(node)
        status, told = await promote(node)

        assert status == 503
        assert "its tensors are of no kind that is known" in told["detail"]
        assert await shown(node) == before
        assert await said(node, "quickly") == town.blobs[first]
        assert (node.assembled.models.pool.told()[0]["others"], len(town.processes())) == ([], 1)
        shelf = Shelf(town.models, limit_bytes=10**9)
        await until(lambda: not shelf.is_used(town.models / town.blobs[second]))
        assert shelf.is_used(town.models / town.blobs[first])
    async with town.node(town.settings()) as node:
        assert await shown(node) == before


async def test_what_had_to_make_room_for_a_revision_that_fails_is_loaded_again(town):
    first = await town.pushed(1)
    async with town.node(town.settings(room=ONE_AT_ONCE, each="pin = true")) as node:
        second = await town.pushed(2)
        (town.models / "refuses").write_text(town.blobs[second])
        status, _ = await promote(node)
        pool = node.assembled.models.pool
        await until(lambda: pool.state_of("small") == "loaded")

        assert status == 503
        assert await said(node, "quickly") == town.blobs[first]


async def test_a_pinned_model_makes_way_for_its_own_next_revision(town):
    await town.pushed(1)
    async with town.node(town.settings(room=ONE_AT_ONCE, each="pin = true")) as node:
        second = await town.pushed(2)
        status, told = await promote(node)

        assert (status, told["pinned"]) == (200, True)
        assert await said(node, "quickly") == town.blobs[second]


async def test_a_restart_runs_what_was_promoted_though_its_library_is_gone(town):
    await town.pushed(1)
    async with town.node(town.settings()) as node:
        second = await town.pushed(2)
        await promote(node)
        await town.pushed(3)
        promoted = await shown(node)
    (town.folder / "library").rename(town.folder / "gone")

    async with town.node(town.settings()) as node:
        assert await shown(node) == promoted
        assert await said(node, "quickly") == town.blobs[second]


async def test_a_damaged_note_of_what_was_promoted_is_told_and_ignored(town):
    first = await town.pushed(1)
    async with town.node(town.settings()) as node:
        await town.pushed(2)
        await promote(node)
    (town.folder / "data" / "promoted.json").write_text('{"promoted": {"small": 7}')
    tell = Told()

    async with town.node(town.settings(), tell=tell) as node:
        assert await said(node, "quickly") == town.blobs[first]
        status, _ = await promote(node)
        assert status == 200
    assert [step for step in tell.steps if "promoted.json" in step and "is damaged" in step] != []
    assert Choices(town.folder / "data" / "promoted.json").damage is None


async def test_a_revision_whose_signer_is_trusted_no_more_is_not_run_after_a_restart(town):
    first = await town.pushed(1)
    other = new_key(town.folder / "other.key")
    async with town.node(town.settings()) as node:
        await town.pushed(2)
        await promote(node)
    settings = town.settings(pin=first).replace(town.public, other)
    unpinned = town.settings().replace(town.public, other)

    async with town.node(settings) as node:
        assert await said(node, "quickly") == town.blobs[first]
    with pytest.raises(Untrusted, match="is not signed by a key that is trusted here"):
        async with town.node(unpinned):
            pass


async def test_a_digest_that_is_given_vouches_for_a_revision_that_nobody_signed(town):
    await town.pushed(1)
    async with town.node(town.settings()) as node:
        unsigned = await town.pushed(2, signed=False)
        refused, why = await promote(node)
        status, _ = await promote(node, unsigned)

        assert (refused, why["code"]) == (503, "model_untrusted")
        assert status == 200
        assert await said(node, "quickly") == town.blobs[unsigned]
    async with town.node(town.settings()) as node:
        assert await said(node, "slower") == town.blobs[unsigned]


async def test_a_revision_pinned_in_the_settings_is_changed_there_and_nowhere_else(town):
    first, second = await town.pushed(1), await town.pushed(2)
    async with town.node(town.settings(pin=first)) as node:
        refused, why = await promote(node, second)
        same, told = await promote(node)
        node.written[0] = town.settings(pin=second)
        status, new = await promote(node)
        after = (await node.post("/-/config/reload", {}, node.admin_headers)).json

        assert (refused, why["code"]) == (409, "revision_pinned")
        assert f"is pinned to {first} in the settings: change `revision` there" in why["detail"]
        assert (same, told["promoted"]) == (200, False)
        assert (status, new["promoted"]) == (200, True)
        assert await said(node, "quickly") == town.blobs[second]
        assert after == {"changed": [], "waiting": []}
    assert not (town.folder / "data" / "promoted.json").exists()


async def test_settings_that_are_wrong_now_or_lack_the_model_promote_nothing(town):
    await town.pushed(1)
    async with town.node(town.settings()) as node:
        node.written[0] = "[models.small]\nsource = 7"
        wrong, why = await promote(node)
        node.written[0] = "[models.other]"
        missing, what = await promote(node)

    assert (wrong, why["code"]) == (422, "config_invalid")
    assert missing == 422
    assert "the settings no longer have [models.small]" in what["detail"]


async def test_the_limits_of_a_model_change_with_its_promotion_and_so_does_its_key(town):
    await town.pushed(1)
    async with town.node(town.settings()) as node:
        before = await shown(node)
        node.written[0] = town.settings(each="max_tokens = 8")
        status, told = await promote(node)

        assert (status, told["promoted"]) == (200, True)
        assert await shown(node) != before


async def test_two_promotions_of_a_model_at_once_are_one_and_a_clear_no(town):
    first = await town.pushed(1)
    async with town.node(town.settings(room=ONE_AT_ONCE)) as node:
        pool = node.assembled.models.pool
        slow = asyncio.create_task(node.chat("slowly", model="small"))
        await until(lambda: pool.told()[0]["answering"] == 1)
        await town.pushed(2)
        one = asyncio.create_task(promote(node))
        await until(lambda: pool.told()[0]["others"] != [])
        listed = (await node.send("GET", "/-/models", headers=node.admin_headers)).json["models"][0]
        other = await promote(node, first)
        (town.models / "go").touch()

        assert listed["promotion"]["step"].startswith("loading small, revision ")
        assert (other[0], other[1]["code"]) == (409, "promotion_runs")
        assert (await one)[0] == 200
        assert (await slow).status == 200


@pytest.mark.parametrize("body", [b"{}", b'{"model": "small", "revision": "abc"}', b'{"model": "small", "x": 1}'])
async def test_what_is_no_promotion_is_refused(town, body):
    await town.pushed(1)
    async with town.node(town.settings()) as node:
        refused = await node.send("POST", "/-/models/promote", body, node.admin_headers)
        unnamed = await node.send("POST", "/-/models/promote", b'{"model": "other"}', node.admin_headers)
        foreign = await node.send("POST", "/-/models/promote", b'{"model": "small"}')

    assert (refused.status, refused.json["code"]) == (400, "bad_model_request")
    assert unnamed.status == 404
    assert foreign.status == 401


async def test_weights_of_a_revision_that_is_gone_may_be_removed_from_this_machine(town):
    first = await town.pushed(1)
    async with town.node(town.settings()) as node:
        second = await town.pushed(2)
        await promote(node)
        shelf = Shelf(town.models, limit_bytes=10**9)
        await until(lambda: not shelf.is_used(town.models / town.blobs[first]))

        assert shelf.is_used(town.models / town.blobs[second])
