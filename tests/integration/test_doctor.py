"""The checks that need a real socket: upstreams, plain and with TLS, and the port."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from email.utils import formatdate

import pytest

from foretold import __version__
from foretold.config import load
from foretold.doctor.finding import Note
from foretold.doctor.port import holder, port, reach
from foretold.doctor.upstreams import Visit, visit, visit_all
from tests.fakes.certificates import certificate
from tests.fakes.upstream import FakeUpstream, whole
from tests.worlds import text, verdict, world_of


async def visited(url: str, more: str = "", *, deadline_s: float = 20) -> Visit:
    (settings,) = load(f'[upstreams.up]\nurl = "{url}"\n{more}').upstreams
    return await visit(settings, callers_bring_keys=False, deadline_s=deadline_s)


async def test_an_upstream_that_lists_its_models_is_well_and_gets_its_key(upstream, monkeypatch):
    monkeypatch.setenv("SOME_KEY", "sk-secret")

    found = await visited(upstream.url, 'key = { env = "SOME_KEY" }\nheaders = { x-team = "web" }\n')

    assert verdict(found.notes) == "ok"
    (call,) = upstream.calls
    assert (call.method, call.target) == ("GET", "/v1/models")
    assert call.header("authorization") == "Bearer sk-secret"
    assert call.header("x-team") == "web"
    assert "sk-secret" not in text(found.notes)


@pytest.mark.parametrize("status", [401, 404, 503])
async def test_what_an_upstream_answers_is_judged(upstream, status):
    upstream.on("/v1/models", lambda call, writer, serial: whole(writer, b"{}", status=status))

    found = await visited(upstream.url)

    assert f"({status})" in text(found.notes) or f"answers {status}" in text(found.notes)


async def test_the_date_of_an_upstream_is_held_against_our_clock(upstream):
    def an_hour_late(call, writer, serial):
        return whole(writer, b'{"data": []}', more=f"date: {formatdate(time.time() - 3600, usegmt=True)}\r\n")

    upstream.on("/v1/models", an_hour_late)

    found = await visited(upstream.url)

    assert found.ahead_s == pytest.approx(3600, abs=60)


@pytest.mark.parametrize(("days", "expected"), [(300, "ok"), (3, "warning"), (-2, "fault")])
async def test_a_certificate_is_valid_ends_soon_or_has_ended(tmp_path, monkeypatch, days, expected):
    made = certificate(tmp_path / "made", days=days)
    monkeypatch.setenv("SSL_CERT_FILE", str(made.file))
    async with FakeUpstream(made.context()) as secure:
        found = await visited(secure.url)

    assert verdict(found.notes) == expected
    assert ("expired" if days < 0 else f"{days} days") in text(found.notes)


async def test_a_certificate_that_nobody_vouches_for_is_a_fault_with_the_variable_to_set(tmp_path):
    made = certificate(tmp_path / "made", days=300)
    async with FakeUpstream(made.context()) as secure:
        found = await visited(secure.url)

    assert verdict(found.notes) == "fault"
    assert "SSL_CERT_FILE" in text(found.notes)
    assert secure.calls == []


async def test_https_where_plain_http_is_spoken_is_said_so():
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        found = await visited(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")

    assert verdict(found.notes) == "fault"
    assert "is it https at all?" in text(found.notes)


async def test_a_program_that_speaks_no_http_is_said_so():
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ready\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        found = await visited(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")

    assert verdict(found.notes) == "fault"
    assert "no answer in HTTP" in text(found.notes)


async def test_an_upstream_that_is_not_there_or_has_no_name_is_a_fault():
    refused = await visited(f"http://127.0.0.1:{free_port()}/v1")
    nameless = await visited("http://no.such.host.invalid/v1")

    assert "can't be reached" in text(refused.notes)
    assert "can't be looked up" in text(nameless.notes)
    assert verdict(refused.notes) == verdict(nameless.notes) == "fault"


async def test_an_upstream_that_is_silent_ends_at_the_deadline_and_it_says_where():
    let_go = asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await let_go.wait()
        writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        found = await visited(url, deadline_s=0.2)
        let_go.set()

    assert verdict(found.notes) == "fault"
    assert f"asking {url}/models took over 0.2 s" in text(found.notes)


async def test_an_upstream_behind_a_proxy_is_asked_through_it(upstream, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", upstream.url.removesuffix("/v1"))
    monkeypatch.delenv("http_proxy", raising=False)

    found = await visited("http://api.example.invalid/v1")

    assert verdict(found.notes) == "ok"
    assert [call.target for call in upstream.calls] == ["http://api.example.invalid/v1/models"]


async def test_a_proxy_that_can_t_be_used_is_the_fault_and_not_the_key(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "socks5://127.0.0.1:9")

    found = await visited("http://api.example.invalid/v1")

    assert verdict(found.notes) == "fault"
    assert "HTTP_PROXY" in text(found.notes)


async def test_an_upstream_that_speaks_plain_json_is_only_connected_to(upstream):
    found = await visited(upstream.url, 'speaks = "json"\n')

    assert verdict(found.notes) == "ok"
    assert upstream.calls == []


def test_all_upstreams_are_asked_at_once():
    waiting = threading.Barrier(2, timeout=60)

    class Together(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            waiting.wait()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"data": []}')

        def log_message(self, *_: object) -> None: ...

    with listening(Together) as at:
        both = "".join(f'[upstreams.{name}]\nurl = "http://127.0.0.1:{at}/v1"\n' for name in "ab")
        config = load(f'{both}[[routes]]\nname = "r"\nmodels = ["*"]\nupstream = "a"\n')
        visits = visit_all(config, deadline_s=60)

    assert [verdict(v.notes) for v in visits] == ["ok", "ok"]


def test_a_free_port_is_well(tmp_path):
    assert verdict(looked_at(tmp_path, free_port())) == "ok"


def test_a_port_of_another_program_is_a_fault_that_names_it_and_its_process(tmp_path):
    program = "import socket; s=socket.socket(); s.bind(('127.0.0.1',0)); s.listen(); print(s.getsockname()[1], flush=True)\nwhile True: s.accept()[0].close()"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        notes = looked_at(tmp_path, int(process.stdout.readline()))
    finally:
        process.kill()
        process.communicate()

    assert verdict(notes) == "fault"
    assert f"(pid {process.pid})" in text(notes)


@pytest.mark.parametrize(
    ("version", "ready", "expected"),
    [(__version__, 200, "ok"), (__version__, 503, "warning"), ("0.0.1", 200, "warning")],
    ids=["ready", "not ready", "another version"],
)
def test_a_port_of_our_own_node_is_well_if_it_is_ready_and_of_this_version(tmp_path, version, ready, expected):
    class Ours(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(ready if self.path == "/-/ready" else 200)
            self.end_headers()
            self.wfile.write(b'{"status": "ok", "version": "%s"}' % version.encode())

        def log_message(self, *_: object) -> None: ...

    with listening(Ours) as at:
        notes = looked_at(tmp_path, at)

    assert verdict(notes) == expected
    assert f"Foretold {version}" in text(notes)
    assert f"(pid {os.getpid()})" in text(notes)


def test_an_address_that_is_not_this_machine_s_is_a_fault(tmp_path):
    world = world_of(tmp_path, '[server]\nhost = "203.0.113.7"\nopen = true\n')

    assert verdict(list(port(world, holder(world)))) == "fault"


def test_who_can_reach_the_node_is_told(tmp_path):
    key = f'[[api_keys]]\ntenant = "web"\nsha256 = "{"0" * 64}"\n'
    near = list(reach(world_of(tmp_path)))
    wide_open = list(reach(world_of(tmp_path, '[server]\nhost = "0.0.0.0"\nopen = true\n')))
    with_keys = list(reach(world_of(tmp_path, f'[server]\nhost = "0.0.0.0"\n{key}')))

    assert "containers and other machines can't reach it" in text(near)
    assert [verdict(notes) for notes in (near, wide_open, with_keys)] == ["ok", "warning", "ok"]
    assert "foretold config api-key" in text(wide_open)


def looked_at(tmp_path, number: int) -> list[Note]:
    world = world_of(tmp_path, f"[server]\nport = {number}\n")
    return list(port(world, holder(world)))


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextlib.contextmanager
def listening(handler: type[http.server.BaseHTTPRequestHandler]) -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
