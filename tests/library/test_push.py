"""Putting models into a real S3 server: what is written, in which parts, and what is left when it ends early."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import pytest

from foretold.config.settings import Library
from foretold.errors import ConfigError, LibraryError
from foretold.models.library.access import access_to
from foretold.models.library.address import address_of
from foretold.models.library.bring import BadGguf
from foretold.models.library.catalogue import Catalogue
from foretold.models.library.describing import Said, files_of
from foretold.models.library.layout import blob_key
from foretold.models.library.objects import PART_BYTES, Store, part_bytes
from foretold.models.library.push import push
from tests.library.gguf_file import model_file
from tests.library.proxy import Treat
from tests.library.weed import ACCESS_KEY, SECRET_KEY
from tests.library.worlds import MB, PATIENT, Told, pulled, pushed, store
from tests.waiting import until

LARGE = 2 * PART_BYTES + 3 * MB


async def test_what_is_there_is_not_sent_again(address, server, tmp_path):
    file, there = model_file(tmp_path / "tiny.gguf", MB), store(address, server.endpoint)

    first, again = await pushed(there, file), await pushed(there, file)

    assert (first.sent_bytes, again.sent_bytes) == (file.stat().st_size, 0)
    assert first.revision == again.revision


async def test_what_is_there_in_another_size_is_sent_again(address, server, tmp_path, folder):
    file, there = model_file(tmp_path / "tiny.gguf", MB), store(address, server.endpoint)
    first = await pushed(there, file)
    await there.replace(blob_key(first.manifest.files[0].blob), b"cut")

    again = await pushed(there, file)

    assert again.sent_bytes == file.stat().st_size
    assert (await pulled(there, folder, again.revision)).weights.read_bytes() == file.read_bytes()


async def test_files_and_manifests_are_written_only_where_there_is_nothing(address, proxy, tmp_path):
    await pushed(store(address, proxy.endpoint), model_file(tmp_path / "tiny.gguf", MB))

    written = [asked for asked in proxy.asked if asked.method == "PUT" and "/names/" not in asked.path]
    assert len(written) == 2
    assert {asked.headers.get("if-none-match") for asked in written} == {"*"}


async def test_eight_who_push_at_once_leave_one_whole_model(address, server, tmp_path, folder):
    file = model_file(tmp_path / "tiny.gguf", MB)

    all_pushed = await asyncio.gather(*(pushed(store(address, server.endpoint), file) for _ in range(8)))

    assert len({one.revision for one in all_pushed}) == 1
    brought = await pulled(store(address, server.endpoint), folder, all_pushed[0].revision)
    assert brought.weights.read_bytes() == file.read_bytes()


async def test_two_that_push_different_models_under_one_name_leave_both_and_one_is_newest(address, server, tmp_path):
    there = store(address, server.endpoint)
    files = [model_file(tmp_path / f"{seed}.gguf", MB, seed=seed) for seed in (1, 2)]

    both = await asyncio.gather(*(pushed(there, file) for file in files))

    assert await Catalogue(there).newest("tiny") in {one.revision for one in both}
    for one in both:
        assert (await Catalogue(there).find("tiny", revision=one.revision)).revision == one.revision


async def test_large_files_go_in_equal_parts_without_checksums_and_tags(address, proxy, tmp_path):
    await pushed(store(address, proxy.endpoint), model_file(tmp_path / "tiny.gguf", LARGE))

    parts = [asked for asked in proxy.asked if "partNumber=" in asked.query]
    assert len(parts) == 3
    sizes = sorted((asked.sent_bytes for asked in parts), reverse=True)
    assert sizes[:-1] == [PART_BYTES, PART_BYTES]
    assert 0 < sizes[-1] < PART_BYTES
    sent = {name for asked in proxy.asked for name in asked.headers}
    assert not [name for name in sent if "checksum" in name or name in ("x-amz-tagging", "content-md5")]


def test_no_file_needs_more_parts_than_stores_take():
    for size_bytes in (1, PART_BYTES, 9000 * PART_BYTES, 9000 * PART_BYTES + 1, 5 * 10**12):
        assert size_bytes / part_bytes(size_bytes) <= 9000
        assert part_bytes(size_bytes) % 2**20 == 0


async def test_r2_is_asked_in_the_region_auto_whatever_the_environment_says(proxy, address, tmp_path):
    bucket = address.removeprefix("s3://")
    library = Library(r2_endpoint=proxy.endpoint)
    at = address_of(f"r2://0123abcd/{bucket}")
    environ = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_REGION": "eu-central-1"}
    there = Store.of(at, access_to(at, library, environ), patience=PATIENT)

    await pushed(there, model_file(tmp_path / "tiny.gguf", LARGE))

    scopes = {re.search(r"Credential=[^/]+/\d+/([^/]+)/s3", asked.headers["authorization"])[1] for asked in proxy.asked}
    assert scopes == {"auto"}
    assert str(at) == f"r2://0123abcd/{bucket}"


def test_r2_is_where_its_account_is():
    at = address_of("r2://0123abcd/models")

    access = access_to(at, Library(), {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"})

    assert (access.endpoint, access.region) == ("https://0123abcd.r2.cloudflarestorage.com", "auto")


async def test_an_upload_that_is_given_up_leaves_no_parts_behind(address, proxy, tmp_path):
    there = store(address, proxy.endpoint)
    proxy.treat = lambda asked: Treat(holds_after=0) if "partNumber=" in asked.query else None
    # Longer than what is on its way at once: the rest is never asked for.
    pushing = asyncio.create_task(pushed(there, model_file(tmp_path / "tiny.gguf", 8 * PART_BYTES)))
    await until(proxy.holding.is_set)

    pushing.cancel()
    proxy.let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await pushing

    await until(lambda: any(asked.method == "DELETE" and "uploadId=" in asked.query for asked in proxy.asked))
    assert await there.under("blobs/") == []
    assert await Catalogue(there).names() == []


async def test_a_file_that_changes_while_it_is_sent_is_not_kept(address, proxy, tmp_path):
    file, there = model_file(tmp_path / "tiny.gguf", LARGE), store(address, proxy.endpoint)

    def treat(asked):
        if asked.method == "POST" and "uploads" in asked.query:
            with file.open("r+b") as content:
                content.seek(LARGE // 2)
                content.write(b"changed")

    proxy.treat = treat

    with pytest.raises(LibraryError, match="was changed while it was sent: push it again"):
        await pushed(there, file)

    assert await there.under("blobs/") == []


async def test_the_name_points_to_a_model_only_once_all_of_it_is_there(address, proxy, tmp_path):
    await pushed(store(address, proxy.endpoint), model_file(tmp_path / "tiny.gguf", LARGE))

    written = [asked.path for asked in proxy.asked if asked.method in ("PUT", "POST")]
    kinds = [next(kind for kind in ("blobs/", "manifests/", "names/") if kind in path) for path in written]
    assert kinds == sorted(kinds)
    assert kinds[-1] == "names/"


def split_files(folder: Path, *, count: int = 3) -> list[Path]:
    folder.mkdir(exist_ok=True)
    return [
        model_file(folder / f"big-{at + 1:05d}-of-{count:05d}.gguf", MB, seed=at, split__no=at, split__count=count)
        for at in range(count)
    ]


async def test_a_split_model_is_one_model_whose_parts_lie_beside_each_other_by_their_names(
    address, server, tmp_path, folder
):
    files, there = split_files(tmp_path / "big"), store(address, server.endpoint)

    # Any of its parts, or their folder, means all of it.
    whole = await pushed(there, files[1])
    assert (await pushed(there, tmp_path / "big")).revision == whole.revision
    brought = await pulled(there, folder, whole.revision)

    assert brought.weights.name == "big-00001-of-00003.gguf"
    for file in files:
        assert (brought.weights.parent / file.name).read_bytes() == file.read_bytes()
    assert brought.manifest.size_bytes == sum(file.stat().st_size for file in files)


async def test_a_split_model_that_lacks_a_part_is_not_pushed(address, server, tmp_path):
    split_files(tmp_path)[1].unlink()

    with pytest.raises(ConfigError, match=r"missing.*\[2\]"):
        await pushed(store(address, server.endpoint), tmp_path)


async def test_parts_that_say_something_else_than_their_names_are_not_pushed(address, server, tmp_path):
    one, two, _ = split_files(tmp_path)
    swapped = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(swapped)

    with pytest.raises(BadGguf, match="says that it is part 2 of 3"):
        await pushed(store(address, server.endpoint), tmp_path)


def test_a_folder_with_several_models_is_no_model(tmp_path):
    for name in ("one.gguf", "two.gguf"):
        model_file(tmp_path / name, 1000)

    with pytest.raises(ConfigError, match="has 2 models: name one file"):
        files_of(tmp_path)


@pytest.mark.parametrize("content", [b"", b"not a model", b"GGUF"], ids=["empty", "text", "cut"])
async def test_what_is_no_model_is_refused_before_anything_is_sent(address, proxy, tmp_path, content):
    file = tmp_path / "x.gguf"
    file.write_bytes(content)

    with pytest.raises(BadGguf, match=r"x\.gguf"):
        await pushed(store(address, proxy.endpoint), file)

    assert proxy.asked == []


async def test_what_whoever_pushes_says_is_in_the_manifest(address, server, tmp_path):
    there = store(address, server.endpoint)
    said = Said(
        name="mine", licence="MIT", languages=("vi", "th"), capabilities=("completion",), chat_template="{{ x }}",
        context=1024, max_tokens=99, parallel=3, kv="q8_0",
    )  # fmt: skip

    file = model_file(tmp_path / "tiny.gguf", MB, llama__embedding_length=128)
    told = await push(there, {file.name: file}, said, signing_key=None, tell=Told())

    manifest = told.manifest
    assert (manifest.licence, manifest.languages, manifest.chat_template) == ("MIT", ("vi", "th"), "{{ x }}")
    assert (manifest.context, manifest.max_tokens, manifest.parallel) == (1024, 99, 3)
    assert (manifest.cache_type_k, manifest.cache_type_v, manifest.trained_context) == ("q8_0", "q8_0", 4096)
    by_itself = await push(
        there, {file.name: file}, replace(said, licence="", languages=()), signing_key=None, tell=Told()
    )
    assert (by_itself.manifest.licence, by_itself.manifest.languages) == ("apache-2.0", ("en", "vi"))
