"""`foretold doctor` as a process of its own: well where all is well, exit code 8 and the fault where it is not."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import socket
from pathlib import Path

import pytest

from tests.asking import chat_body
from tests.e2e.program import command, environment, run, serving
from tests.fakes.upstream import FakeUpstream, whole

# How the digest of the bundled model begins; others may lie beside it.
BUNDLED = "b179c9523d0e"
KEY = "sk-very-secret"


def settings(url: str, port: int | None = None) -> str:
    return (
        f"[server]\nport = {port or free_port()}\nconnections = 100\n"
        f'[upstreams.up]\nurl = "{url}"\nconnections = 100\nkey = {{ env = "UP_KEY" }}\n'
    )


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def verdicts(told: list[dict[str, str]]) -> dict[str, str]:
    return {finding["check"]: finding["verdict"] for finding in told}


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


@pytest.fixture
def key(monkeypatch) -> None:
    """What `serving` passes on to its node."""
    monkeypatch.setenv("UP_KEY", KEY)


async def begun(home: Path, upstream: FakeUpstream) -> None:
    """A data folder with an answer in it, and settings that are right."""
    plain = f'[upstreams.up]\nurl = "{upstream.url}"\n'
    async with serving(home, plain) as node:
        await node.post("/v1/chat/completions", chat_body("hello"))
        await node.written(1)
    (home / "foretold.toml").write_text(settings(upstream.url))


async def test_a_healthy_set_up_is_well_and_ends_with_0(upstream, tmp_path):
    await begun(tmp_path, upstream)

    looked = await run("doctor", home=tmp_path, UP_KEY=KEY)
    told = (await run("doctor", "--json", home=tmp_path, UP_KEY=KEY)).json

    assert looked.code == 0, looked.out
    assert "FAULT" not in looked.out
    assert "0 faults" in looked.out.splitlines()[-1]
    assert looked.out.endswith("exit 0\n")
    well = {"settings", "data folder", "secret", "admin token", "generations", "disk store", "upstream up", "port"}
    assert {name for name, verdict in verdicts(told).items() if verdict == "ok"} >= well
    assert all(finding.keys() == {"check", "verdict", "found", "todo"} for finding in told)


async def test_a_node_with_the_bundled_model_is_well(tmp_path):
    (tmp_path / "foretold.toml").write_text(f"[server]\nport = {free_port()}\n")
    async with serving(tmp_path):
        pass

    told = (await run("doctor", "--json", home=tmp_path)).json

    assert verdicts(told)["model"] == verdicts(told)["engine"] == "ok"


async def test_a_node_that_runs_is_found_and_keeps_answering(upstream, tmp_path):
    port = free_port()
    text = f'[server]\nport = {port}\n[upstreams.up]\nurl = "{upstream.url}"\n'
    async with serving(tmp_path, text, "--port", str(port)) as node:
        await node.post("/v1/chat/completions", chat_body("hello"))
        await node.written(1)
        looked = await run("doctor", "--config", "given.toml", home=tmp_path)
        _, headers, _ = await node.post("/v1/chat/completions", chat_body("hello"))

        assert looked.code == 0, looked.out
        assert f"(pid {node.process.pid})" in looked.out
        assert "a node runs there" in looked.out
        assert "; hit" in headers["cache-status"]


async def test_looking_changes_nothing_and_shows_no_secret(upstream, tmp_path):
    await begun(tmp_path, upstream)
    before = contents(tmp_path)

    looked = await run("doctor", home=tmp_path, UP_KEY=KEY, FORETOLD_KEY="fk_secret")
    told = await run("doctor", "--json", home=tmp_path, UP_KEY=KEY, FORETOLD_KEY="fk_secret")

    assert contents(tmp_path) == before
    secrets = [KEY, "fk_secret", *((tmp_path / name).read_text().strip() for name in ("secret", "admin-token"))]
    assert not any(secret in looked.out + looked.err + told.out + told.err for secret in secrets)
    assert any(call.header("authorization") == f"Bearer {KEY}" for call in upstream.calls)


async def _settings_broken(home: Path, upstream: FakeUpstream) -> None:
    (home / "foretold.toml").write_text("[server]\nprot = 1\n")


async def _secret_open(home: Path, upstream: FakeUpstream) -> None:
    (home / "secret").chmod(0o644)


async def _generations_garbled(home: Path, upstream: FakeUpstream) -> None:
    (home / "generations.json").write_text("{}")


async def _store_cut(home: Path, upstream: FakeUpstream) -> None:
    with (home / "answers" / "data.mdb").open("r+b") as file:
        file.truncate(5000)


async def _key_refused(home: Path, upstream: FakeUpstream) -> None:
    upstream.on("/v1/models", lambda call, writer, serial: whole(writer, b"{}", status=401))


async def _address_doubled(home: Path, upstream: FakeUpstream) -> None:
    upstream.on("/v1/v1/models", lambda call, writer, serial: whole(writer, b"{}", status=404))
    (home / "foretold.toml").write_text(settings(f"{upstream.url}/v1"))


async def _upstream_gone(home: Path, upstream: FakeUpstream) -> None:
    (home / "foretold.toml").write_text(settings("http://127.0.0.1:9/v1"))


async def _port_taken(home: Path, upstream: FakeUpstream) -> None:
    taken = int(upstream.url.rpartition(":")[2].removesuffix("/v1"))
    (home / "foretold.toml").write_text(settings(upstream.url, taken))


FAULTS = {
    "settings": (_settings_broken, "server.prot: unknown setting; did you mean `port`?"),
    "secret": (_secret_open, "chmod 600"),
    "generations": (_generations_garbled, "generations.json is damaged"),
    "disk store": (_store_cut, "data.mdb is damaged"),
    "upstream up": (_key_refused, "the key is refused (401); it comes from the environment variable UP_KEY"),
    "upstream  up": (_address_doubled, "/v1 is in it twice"),
    "upstream   up": (_upstream_gone, "127.0.0.1:9 can't be reached: Connection refused"),
    "port": (_port_taken, "is taken by"),
}


@pytest.mark.parametrize("check", FAULTS)
async def test_a_fault_is_said_with_what_to_do_and_ends_with_8(upstream, tmp_path, check):
    breaks, says = FAULTS[check]
    await begun(tmp_path, upstream)
    await breaks(tmp_path, upstream)

    looked = await run("doctor", home=tmp_path, UP_KEY=KEY)
    told = await run("doctor", "--json", home=tmp_path, UP_KEY=KEY)

    assert (looked.code, told.code) == (8, 8)
    assert says in looked.out
    faults = [finding for finding in told.json if finding["verdict"] == "fault"]
    assert [finding["check"] for finding in faults] == [" ".join(check.split())]
    assert faults[0]["todo"] != []
    assert "1 fault" in looked.out.splitlines()[-1]
    assert looked.out.endswith("exit 8\n")


async def test_damaged_weights_are_a_fault_and_stay_as_they_are(tmp_path):
    async with serving(tmp_path):
        pass  # brings them, where they are not here yet
    cache = Path(environment(tmp_path).get("FORETOLD_CACHE") or Path.home() / ".cache/foretold")
    (blob,) = (cache / "models").glob(f"sha256-{BUNDLED}*[0-9a-f]")
    (tmp_path / "cache" / "models").mkdir(parents=True)
    here = tmp_path / "cache" / "models" / blob.name
    shutil.copy(blob, here)
    here.chmod(0o644)
    with here.open("r+b") as file:
        file.seek(50_000_000)
        file.write(b"damaged")

    looked = await run("doctor", home=tmp_path, FORETOLD_CACHE=str(tmp_path / "cache"))

    assert looked.code == 8
    assert "is damaged: its SHA-256 is" in looked.out
    assert here.read_bytes()[50_000_000:50_000_007] == b"damaged"


async def test_ctrl_c_ends_it_at_once_and_cleanly(upstream, tmp_path):
    never = asyncio.Event()
    upstream.on("/v1/models", lambda call, writer, serial: never.wait())
    (tmp_path / "foretold.toml").write_text(settings(upstream.url))
    process = await asyncio.create_subprocess_exec(
        *command(),
        "doctor",
        env=environment(tmp_path, {"UP_KEY": KEY}),
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    await upstream.called(1)
    process.send_signal(signal.SIGINT)
    out, err = await process.communicate()

    assert process.returncode == 130
    assert b"settings" in out
    assert b"Traceback" not in err


async def test_the_report_needs_neither_colour_nor_other_letters_than_the_terminal_has(upstream, tmp_path):
    home = tmp_path / "dữ liệu"
    home.mkdir()

    looked = await run("doctor", home=home, PYTHONIOENCODING="ascii", NO_COLOR="1")

    assert "\x1b" not in looked.out
    assert looked.out.isascii()
    assert "Traceback" not in looked.err


async def test_it_has_colour_where_that_is_wanted_and_the_words_stay(tmp_path):
    looked = await run("doctor", home=tmp_path, FORCE_COLOR="1")

    assert "\x1b[32mok" in looked.out


async def test_json_is_one_document_on_stdout_and_nothing_else(tmp_path):
    told = await run("doctor", "--json", home=tmp_path)

    assert isinstance(json.loads(told.out), list)
    assert told.err == ""
