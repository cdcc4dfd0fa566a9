"""What stands before the callers of an account: its hosts over TLS, its static files, its Workers in workerd.

A caller reaches it through `environment()`: a proxy that leads every host here, and a certificate to trust.  A Worker runs
with the modules and bindings of its very upload; its KV namespaces are the account's own.

Unlike production: one place only, no cache before the Worker, a file's address is taken as it is, and a Worker asks
its upstreams from this machine.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, web
from multidict import CIMultiDict

from tests.fakes.certificates import certificate
from tests.fakes.cloudflare_api.runtime_kv import RuntimeKv
from tests.fakes.cloudflare_api.server import CloudflareApi
from tests.fakes.cloudflare_api.things import Script

RUNNER = Path(__file__).parents[2] / "wrangler" / "run_uploaded.mjs"
START_S = 60
# What a caller doesn't send is not added on the way.
_OWN = ("accept", "accept-encoding", "user-agent", "content-type")
_HOP = ("transfer-encoding", "connection", "content-length")


class Front:
    """Of one account; `folder` is for what it writes."""

    def __init__(self, api: CloudflareApi, folder: Path):
        self._api, self._folder = api, folder
        self._running: dict[str, tuple[Script, str, asyncio.subprocess.Process]] = {}
        self._around = AsyncExitStack()
        self._starting = asyncio.Lock()

    async def __aenter__(self) -> Front:
        self._folder.mkdir(parents=True, exist_ok=True)
        hosts = sorted(
            {d["hostname"] for d in self._api.things.domains.values()} | set(self._api.things.zones.values())
        )
        hosts += [f"*.{name}" for name in (*self._api.things.zones.values(), self._on_workers_dev())]
        made = certificate(self._folder / "certificate", days=2, names=hosts)
        self._trusted = made.file
        self._kv = await self._around.enter_async_context(RuntimeKv(self._api))
        self._session = await self._around.enter_async_context(
            ClientSession(auto_decompress=False, skip_auto_headers=_OWN)
        )
        app = web.Application(client_max_size=2**20)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._inside = web.AppRunner(app, access_log=None)
        await self._inside.setup()
        await web.TCPSite(self._inside, "127.0.0.1", 0, ssl_context=made.context()).start()
        self._proxy = await asyncio.start_server(self._lead, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._proxy.close()
        await self._inside.cleanup()
        for _, _, process in self._running.values():
            await asyncio.wait_for(process.communicate(b""), START_S)
        await self._around.aclose()

    def environment(self) -> dict[str, str]:
        proxy = f"http://127.0.0.1:{self._proxy.sockets[0].getsockname()[1]}"
        return {
            "HTTPS_PROXY": proxy,
            "https_proxy": proxy,
            "SSL_CERT_FILE": str(self._trusted),
            "CURL_CA_BUNDLE": str(self._trusted),
        }

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """CONNECT to any host ends here."""
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"CONNECT ")
        port = self._inside.addresses[0][1]
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(_copy(reader, to_writer), _copy(to_reader, writer))

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        name = self._script_at(request.url.host or "", request.rel_url.raw_path)
        if name is None:
            return web.Response(status=522, text="no Worker has this address")
        script = self._api.things.scripts[name]
        if file := _file(script, request.path):
            return web.Response(body=file[1], headers={"content-type": file[0]})
        async with self._starting:
            base = await self._address_of(name, script)
        fields = {k: v for k, v in request.headers.items() if k.lower() not in _HOP}
        async with self._session.request(
            request.method,
            base.rstrip("/") + request.raw_path,
            headers=fields,
            data=await request.read() or None,
            allow_redirects=False,
        ) as answer:
            self._api.log(name, _event(name, request, answer.status))
            # In lower case, as HTTP/2 has it in production.
            kept = CIMultiDict((k.lower(), v) for k, v in answer.headers.items() if k.lower() not in _HOP)
            return web.Response(status=answer.status, body=await answer.read(), headers=kept)

    def _script_at(self, host: str, path: str) -> str | None:
        """Of the narrowest route, else of a domain, else on workers.dev."""
        found: list[tuple[int, str | None]] = []
        for route in self._api.things.routes.values():
            if _matches(route["pattern"], host, path):
                found.append((len(route["pattern"]), route["script"]))
        if found:
            return max(found, key=lambda one: one[0])[1]
        for domain in self._api.things.domains.values():
            if domain["hostname"] == host:
                return str(domain["service"])
        name = host.removesuffix(f".{self._on_workers_dev()}")
        script = self._api.things.scripts.get(name)
        return name if script is not None and script.on_workers_dev else None

    def _on_workers_dev(self) -> str:
        return f"{self._api.things.subdomain}.workers.dev"

    async def _address_of(self, name: str, script: Script) -> str:
        running = self._running.get(name)
        if running is not None and running[0] is script:
            return running[1]
        folder = self._folder / f"{name}-{script.uploads}"
        _write(script, folder, kv_address=self._kv.address)
        process = await asyncio.create_subprocess_exec(
            "node", RUNNER, folder, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        line = (await asyncio.wait_for(process.stdout.readline(), START_S)).decode().strip()
        assert line, "workerd did not start"
        if running is not None:
            await asyncio.wait_for(running[2].communicate(b""), START_S)
        self._running[name] = (script, line, process)
        return line


def _matches(pattern: str, host: str, path: str) -> bool:
    """By Cloudflare's rules, told anew: the deployer's own reading of them is under test."""
    expression = "".join(".*" if c == "*" else re.escape(c) for c in pattern.rpartition("://")[2])
    return re.fullmatch(expression, host + path) is not None


def _file(script: Script, path: str) -> tuple[str, bytes] | None:
    first = (script.metadata.get("assets_config") or {}).get("run_worker_first") or []
    if any(_matches(rule, "", path) for rule in first):
        return None
    names = [path, f"{path}index.html"] if path.endswith("/") else [path, f"{path}.html"]
    return next((script.assets[name] for name in names if name in script.assets), None)


def _event(name: str, request: web.Request, status: int) -> dict[str, Any]:
    """A run as those hear it who listen to the Worker's tail."""
    asked = {"url": str(request.url), "method": request.method, "headers": dict(request.headers)}
    return {
        "scriptName": name,
        "outcome": "ok",
        "eventTimestamp": int(time.time() * 1000),
        "event": {"request": asked, "response": {"status": status}},
        "logs": [],
        "exceptions": [],
    }


def _write(script: Script, folder: Path, *, kv_address: str) -> None:
    """The modules, the static files, and what the runner must know of the bindings."""
    for name, (_, content) in script.modules.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    files: dict[str, tuple[str, str]] = {}
    for path, (kind, content) in script.assets.items():
        at = folder / "static" / path.lstrip("/")
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_bytes(content)
        for address in {path, path.removesuffix("index.html"), path.removesuffix(".html")}:
            files[address] = (kind, str(at))
    of_kind: dict[str, list[dict[str, Any]]] = {}
    for binding in script.bindings:
        of_kind.setdefault(binding["type"], []).append(binding)
    texts = {b["name"]: b["text"] for b in of_kind.get("plain_text", [])}
    told = {
        **{name: script.metadata[name] for name in ("main_module", "compatibility_date", "compatibility_flags")},
        "modules": list(script.modules),
        "texts": {**texts, **script.secrets},
        "kv": {b["name"]: b["namespace_id"] for b in of_kind["kv_namespace"]},
        "kv_address": kv_address,
        "r2": {b["name"]: b["bucket_name"] for b in of_kind.get("r2_bucket", [])},
        "ratelimits": {b["name"]: {"simple": b["simple"]} for b in of_kind.get("ratelimit", [])},
        "datasets": {b["name"]: {"dataset": b["dataset"]} for b in of_kind.get("analytics_engine", [])},
        "assets": [b["name"] for b in of_kind.get("assets", [])],
        "files": files,
    }
    (folder / "upload.json").write_text(json.dumps(told))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()
