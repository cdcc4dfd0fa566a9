"""Bringing a model from a real S3 server, and everything that may go wrong on the way."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
from pathlib import Path

import pytest
import pytest_asyncio

from foretold.errors import LibraryError, LibraryForbidden, LibraryUnreachable, ModelError, NotInLibrary
from foretold.models.library.access import Patience
from foretold.models.library.catalogue import Catalogue
from foretold.models.library.document import manifest_of, written
from foretold.models.library.fetch import PART_BYTES, WrongDigest
from foretold.models.library.gguf import BadGguf
from foretold.models.library.layout import blob_key
from foretold.models.library.objects import Replaced, Store
from tests.library.gguf_file import model_file
from tests.library.proxy import Asked, Proxy, Treat
from tests.library.weed import ACCESS_KEY, SECRET_KEY
from tests.library.worlds import IMPATIENT, MB, Pushed, Told, pulled, pushed, store
from tests.waiting import until

SHARED = "s3://models/shared"
SILENCE_IS_SHORT = Patience(read_s=0.3, retries=0, retry_s=1)
# Five parts, the last of them short.
SIZE = 4 * PART_BYTES + 3 * MB


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(server, tmp_path_factory) -> tuple[str, Path, Pushed]:
    """A model that no test changes: its library, its file, and what it is."""
    file = model_file(tmp_path_factory.mktemp("shared") / "tiny.gguf", SIZE)
    return SHARED, file, await pushed(store(SHARED, server.endpoint), file)


@pytest.fixture
def shared_address(shared) -> str:
    return shared[0]


@pytest.fixture
def file(shared) -> Path:
    return shared[1]


@pytest.fixture
async def own(server, address, file) -> Pushed:
    """The same in a library of this test's own, to be changed there."""
    return await pushed(store(address, server.endpoint), file)


@pytest.fixture
def model(shared) -> Pushed:
    return shared[2]


def first_time(wanted: Treat):
    """Treats the first part that is asked for, and each other one well."""
    seen = []

    def treat(asked: Asked) -> Treat | None:
        if not asked.is_part:
            return None
        seen.append(asked)
        return wanted if len(seen) == 1 else None

    return treat


def always(wanted: Treat):
    return lambda asked: wanted if asked.is_part else None


def blobs(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.glob("sha256-*") if "." not in p.name)


def noted(folder: Path) -> list[int]:
    """The parts that are here, by the journal of the one file that is coming."""
    (journal,) = folder.glob("*.parts")
    return [int(line[:-1]) for line in journal.read_text().split("\n")[1:] if line.endswith(".")]


async def broken_off(there: Store, proxy: Proxy, folder: Path, revision: str, *, parts: int) -> None:
    """A pull that was given up once its first parts were here."""
    proxy.treat = lambda asked: (
        Treat(holds_after=0) if asked.is_part and asked.wanted[0] >= parts * PART_BYTES else None
    )
    pulling = asyncio.create_task(pulled(there, folder, revision))
    await until(lambda: bool(list(folder.glob("*.parts"))) and len(noted(folder)) == parts)
    pulling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pulling
    proxy.asked.clear()
    proxy.treat = lambda asked: None


async def overwrite(address: str, server, blob: str, content: bytes) -> None:
    await store(address, server.endpoint).replace(blob_key(blob), content)


async def test_what_was_pushed_comes_back_byte_for_byte_and_read_only(server, shared_address, file, model, folder):
    brought = await pulled(store(shared_address, server.endpoint), folder, model.revision)

    assert brought.weights.read_bytes() == file.read_bytes()
    assert brought.weights.name == f"sha256-{hashlib.sha256(file.read_bytes()).hexdigest()}"
    assert brought.weights.stat().st_mode & 0o777 == 0o444
    assert brought.fetched_bytes == file.stat().st_size
    assert [p.name for p in folder.iterdir() if p.suffix in (".coming", ".parts")] == []


async def test_what_is_here_is_not_fetched_again(shared_address, proxy, model, folder):
    there = store(shared_address, proxy.endpoint)
    await pulled(there, folder, model.revision)
    proxy.asked.clear()

    again = await pulled(there, folder, model.revision)

    assert again.fetched_bytes == 0
    assert [asked for asked in proxy.asked if "blobs/" in asked.path] == []


async def test_parts_come_four_to_eight_at_once_and_each_wants_the_object_that_was_seen(
    shared_address, proxy, model, folder
):
    proxy.treat = lambda asked: Treat(holds_after=0) if asked.is_part else None
    pulling = asyncio.create_task(pulled(store(shared_address, proxy.endpoint), folder, model.revision))
    await until(proxy.holding.is_set)

    await until(lambda: len(proxy.parts) == 5)
    proxy.let_go.set()
    await pulling

    assert len({asked.headers["if-match"] for asked in proxy.parts}) == 1


async def test_progress_never_runs_backwards_and_ends_at_all(shared_address, proxy, model, folder):
    proxy.treat = first_time(Treat(cuts_after=2 * MB))
    told = Told()

    await pulled(store(shared_address, proxy.endpoint), folder, model.revision, tell=told)

    done = [done for done, _ in told.seen]
    assert done == sorted(done)
    assert told.seen[-1] == (model.manifest.size_bytes, model.manifest.size_bytes)


async def test_a_wrong_key_is_told_without_key_or_endpoint(server, shared_address, model, folder):
    with pytest.raises(LibraryForbidden, match="check the access key") as refused:
        await pulled(store(shared_address, server.endpoint, secret="another secret"), folder, model.revision)

    assert str(refused.value).startswith(shared_address)
    assert not {ACCESS_KEY, SECRET_KEY, "another secret", server.endpoint} & set(str(refused.value).split())
    assert "127.0.0.1" not in str(refused.value)
    assert refused.value.exit_code == 4


async def test_a_server_that_is_not_there_is_told_as_that(shared_address, folder):
    with pytest.raises(LibraryUnreachable, match="nobody listens there"):
        await pulled(store(shared_address, "http://127.0.0.1:9", patience=IMPATIENT), folder, "0" * 64)


async def test_a_model_that_is_not_there_is_told_with_the_command_that_lists(server, shared_address, folder):
    with pytest.raises(NotInLibrary, match=f"foretold models list {shared_address}"):
        await pulled(store(shared_address, server.endpoint), folder, "", name="none")


async def test_an_object_replaced_in_mid_pull_is_refused_and_never_mixed(server, address, proxy, file, own, folder):
    blob = own.manifest.files[0].blob
    begun, replaced = asyncio.Event(), asyncio.Event()

    def treat(asked: Asked) -> Treat | None:
        if not asked.is_part or replaced.is_set():
            return None
        begun.set()
        return Treat(cuts_after=MB)

    proxy.treat = treat
    pulling = asyncio.create_task(pulled(store(address, proxy.endpoint), folder, own.revision))
    await until(begun.is_set)
    await overwrite(address, server, blob, file.read_bytes()[:-8] + b"replaced")
    replaced.set()

    with pytest.raises(Replaced, match="run it again"):
        await pulling
    assert blobs(folder) == []

    await overwrite(address, server, blob, file.read_bytes())
    again = await pulled(store(address, proxy.endpoint), folder, own.revision)
    assert again.weights.read_bytes() == file.read_bytes()


async def test_ranges_that_come_short_are_asked_for_again_from_where_they_ended(
    shared_address, proxy, file, model, folder
):
    proxy.treat = lambda asked: Treat(gives_bytes=5 * MB) if asked.is_part else None

    brought = await pulled(store(shared_address, proxy.endpoint), folder, model.revision)

    assert brought.weights.read_bytes() == file.read_bytes()
    assert sorted(asked.wanted[0] for asked in proxy.parts if asked.wanted[0] % PART_BYTES) == [
        part * PART_BYTES + 5 * MB for part in range(4)
    ]


async def test_a_store_that_gives_nothing_of_what_it_has_ends_the_pull(shared_address, proxy, model, folder):
    proxy.treat = lambda asked: Treat(gives_bytes=0) if asked.is_part and asked.wanted[0] > 0 else None

    with pytest.raises(LibraryError, match="gave only the first"):
        await pulled(store(shared_address, proxy.endpoint, patience=IMPATIENT), folder, model.revision)

    assert blobs(folder) == []


async def test_a_store_that_answers_another_range_is_told(shared_address, proxy, model, folder):
    proxy.treat = always(Treat(gives_bytes=MB, admits_it=True))

    with pytest.raises(LibraryUnreachable, match="gave other bytes than were asked for"):
        await pulled(store(shared_address, proxy.endpoint, patience=IMPATIENT), folder, model.revision)


async def test_a_connection_that_breaks_is_gone_on_with_where_it_broke(shared_address, proxy, file, model, folder):
    proxy.treat = first_time(Treat(cuts_after=3 * MB))

    brought = await pulled(store(shared_address, proxy.endpoint), folder, model.revision)

    assert brought.weights.read_bytes() == file.read_bytes()
    assert any(asked.wanted[0] % PART_BYTES for asked in proxy.parts)


@pytest.mark.parametrize("status", [500, 503, 429])
async def test_a_failing_server_is_told_and_the_next_run_fetches_only_what_is_missing(
    shared_address, proxy, model, folder, status
):
    proxy.treat = lambda asked: Treat(status=status) if asked.is_part and asked.wanted[0] >= 2 * PART_BYTES else None
    with pytest.raises(LibraryUnreachable, match=f"it answered {status}.*try later"):
        await pulled(store(shared_address, proxy.endpoint, patience=IMPATIENT), folder, model.revision)
    here = set(noted(folder))
    proxy.asked.clear()
    proxy.treat = lambda asked: None

    await pulled(store(shared_address, proxy.endpoint), folder, model.revision)

    assert {asked.wanted[0] // PART_BYTES for asked in proxy.parts} == set(range(5)) - here


async def test_a_server_that_falls_silent_is_asked_again(shared_address, proxy, file, model, folder):
    proxy.treat = first_time(Treat(holds_after=MB))

    brought = await pulled(store(shared_address, proxy.endpoint, patience=IMPATIENT), folder, model.revision)

    assert brought.weights.read_bytes() == file.read_bytes()


async def test_a_server_that_stays_silent_ends_the_pull_and_what_came_is_kept(shared_address, proxy, model, folder):
    proxy.treat = always(Treat(holds_after=0))

    with pytest.raises(LibraryUnreachable, match="no answer in time|broke off"):
        await pulled(store(shared_address, proxy.endpoint, patience=SILENCE_IS_SHORT), folder, model.revision)

    assert blobs(folder) == []
    assert list(folder.glob("*.coming"))


async def test_a_server_that_gives_the_whole_object_for_a_part_is_told(shared_address, proxy, model, folder):
    proxy.treat = lambda asked: Treat(ignores_range=True) if "blobs/" in asked.path else None

    with pytest.raises(LibraryError, match="gave the whole object where a part was asked for"):
        await pulled(store(shared_address, proxy.endpoint, patience=IMPATIENT), folder, model.revision)


@pytest.mark.parametrize("changed", ["a flipped byte", "200 kB overwritten"])
async def test_a_poisoned_file_is_refused_by_its_digest_and_nothing_of_it_is_kept(
    server, address, file, own, folder, changed
):
    content = bytearray(file.read_bytes())
    if changed == "a flipped byte":
        content[SIZE // 2] ^= 1
    else:
        content[SIZE // 2 : SIZE // 2 + 200_000] = b"\xff" * 200_000
    await overwrite(address, server, own.manifest.files[0].blob, bytes(content))

    with pytest.raises(WrongDigest, match="SHA-256.*was not kept: push it anew, with --replace"):
        await pulled(store(address, server.endpoint), folder, own.revision)

    assert [p.name for p in folder.iterdir() if p.name.startswith("sha256-") and p.suffix != ".lock"] == []


async def test_what_an_earlier_run_left_damaged_on_the_disk_is_fetched_anew(shared_address, proxy, file, model, folder):
    await broken_off(store(shared_address, proxy.endpoint), proxy, folder, model.revision, parts=3)
    (coming,) = folder.glob("*.coming")
    with coming.open("r+b") as content:
        content.seek(PART_BYTES + 1000)
        content.write(b"damaged on the disk")

    brought = await pulled(store(shared_address, proxy.endpoint), folder, model.revision)

    assert brought.weights.read_bytes() == file.read_bytes()


async def test_a_file_that_was_damaged_here_is_replaced(server, shared_address, file, model, folder):
    brought = await pulled(store(shared_address, server.endpoint), folder, model.revision)
    brought.weights.chmod(0o644)
    with brought.weights.open("r+b") as content:
        content.seek(MB)
        content.write(b"damaged")
    told = Told()

    again = await pulled(store(shared_address, server.endpoint), folder, model.revision, tell=told)

    assert again.weights.read_bytes() == file.read_bytes()
    assert any("is damaged" in step for step in told.steps)


async def test_parts_of_an_object_that_was_replaced_since_are_fetched_anew(server, address, proxy, file, own, folder):
    await broken_off(store(address, proxy.endpoint), proxy, folder, own.revision, parts=3)
    await overwrite(address, server, own.manifest.files[0].blob, file.read_bytes())

    brought = await pulled(store(address, proxy.endpoint), folder, own.revision)

    assert brought.weights.read_bytes() == file.read_bytes()


async def rewritten(address: str, server, own, **changed: object) -> str:
    """The model's manifest with other members, as somebody might write it who has no part in this program."""
    manifest = dataclasses.replace(own.manifest, **changed)
    text = written(manifest)
    return await Catalogue(store(address, server.endpoint)).publish(manifest_of(text), text)


async def test_a_file_that_is_no_model_is_refused_before_it_is_fetched(server, address, proxy, own, folder):
    await overwrite(address, server, own.manifest.files[0].blob, b"not a model".ljust(own.manifest.size_bytes))

    with pytest.raises(BadGguf, match="begins with b'not '"):
        await pulled(store(address, proxy.endpoint), folder, own.revision)

    assert proxy.parts == []
    assert list(folder.glob("*.coming")) == []


async def test_a_model_whose_engine_is_too_old_is_refused_before_it_is_fetched(server, address, proxy, own, folder):
    path = folder.parent / "other.gguf"
    model_file(path, SIZE - 64, general__architecture="not-yet-known")
    content = path.read_bytes()[: own.manifest.size_bytes].ljust(own.manifest.size_bytes, b"\0")
    await overwrite(address, server, own.manifest.files[0].blob, content)

    with pytest.raises(BadGguf, match="knows no models of kind 'not-yet-known'"):
        await pulled(store(address, proxy.endpoint), folder, own.revision)

    assert proxy.parts == []


async def test_a_model_that_memory_cannot_hold_is_refused_with_both_numbers_before_it_is_fetched(
    server, address, proxy, own, folder
):
    revision = await rewritten(address, server, own, token_bytes=2**50)

    with pytest.raises(ModelError, match=r"needs [\d,]+ MB of memory.*this machine has [\d,]+ MB"):
        await pulled(store(address, proxy.endpoint), folder, revision)

    assert [asked for asked in proxy.asked if "blobs/" in asked.path] == []


async def test_a_file_of_another_size_than_promised_is_refused_before_it_is_fetched(
    server, address, proxy, file, own, folder
):
    await overwrite(address, server, own.manifest.files[0].blob, file.read_bytes()[:-1000])

    with pytest.raises(LibraryError, match="its manifest says .*: push it anew"):
        await pulled(store(address, proxy.endpoint), folder, own.revision)

    assert proxy.parts == []


async def test_a_manifest_without_its_file_is_told(server, address, own, folder):
    await store(address, server.endpoint).delete([blob_key(own.manifest.files[0].blob)])

    with pytest.raises(NotInLibrary, match=r"has the manifest and not its file tiny\.gguf"):
        await pulled(store(address, server.endpoint), folder, own.revision)


async def test_a_pull_that_is_cancelled_keeps_what_came(shared_address, proxy, model, folder):
    await broken_off(store(shared_address, proxy.endpoint), proxy, folder, model.revision, parts=3)

    again = await pulled(store(shared_address, proxy.endpoint), folder, model.revision)

    assert again.fetched_bytes == model.manifest.size_bytes - 3 * PART_BYTES
