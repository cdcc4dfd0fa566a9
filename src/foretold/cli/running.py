"""From settings to a node that answers, and back to nothing: the whole run of `foretold serve`."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from foretold import __version__
from foretold.assemble import Assembled, assemble
from foretold.cli.words import Progress, bold, told_reloaded
from foretold.config.checking import is_loopback, reachable
from foretold.config.settings import Config
from foretold.datafolder import DataFolder, data_folder, models_folder
from foretold.errors import ForetoldError
from foretold.live import Live
from foretold.models import bundled
from foretold.models.configured import models_of
from foretold.models.manifest import SMOLLM2
from foretold.observe.log import QueryLog
from foretold.server.serve import bind, serve, server_for


async def run(config: Config, *, read: Callable[[], Config], as_json: bool) -> int:
    """Serves until told to stop; the exit code.  `read` gives the settings as they are now written.

    Raises ForetoldError for what keeps a node from starting.
    """
    began_s = time.monotonic()
    sock = bind(config.server.host, config.server.port)
    run_folder = Path(tempfile.mkdtemp(prefix="foretold-"))
    try:
        folder = data_folder(config.data)
        models = models_of(config)
        # In a thread: a download or a hash must not keep Ctrl-C waiting.
        file = await asyncio.to_thread(bundled.ensure, SMOLLM2, models_folder(), tell=Progress()) if models else None
        files = {m.name: file for m in models if file is not None}
        assembled = assemble(config, folder, model_files=files, run_folder=run_folder)
        try:
            for model in assembled.models:
                await model.host.start()
            return await _serve(config, assembled, sock, read=read, began_s=began_s, folder=folder, as_json=as_json)
        finally:
            await assembled.node.close()
            for model in assembled.models:
                await model.host.stop()
    finally:
        sock.close()
        shutil.rmtree(run_folder, ignore_errors=True)


async def _serve(
    config: Config,
    assembled: Assembled,
    sock: socket.socket,
    *,
    read: Callable[[], Config],
    began_s: float,
    folder: DataFolder,
    as_json: bool,
) -> int:
    port = sock.getsockname()[1]
    host = config.server.host
    address = f"http://{reachable(host)}:{port}"
    state = {"ready": False}

    def started() -> None:
        state["ready"] = True
        if as_json:
            print(json.dumps({"url": address, "pid": os.getpid(), "data": str(folder.path)}), flush=True)
        else:
            print(_banner(config, assembled, address, folder, time.monotonic() - began_s), file=sys.stderr, flush=True)

    def stopping() -> None:
        state["ready"] = False
        if not as_json:
            print("\nStopping: running answers may end; Ctrl-C again stops at once.", file=sys.stderr, flush=True)

    if config.logs.queries == "on" or (config.logs.queries == "auto" and sys.stderr.isatty() and not as_json):
        assembled.node.counters.observers.append(QueryLog(sys.stderr))
    live = Live(config, assembled, base_url=f"{address}/v1", is_ready=lambda: state["ready"], read=read)
    server = server_for(live.app, config.server)
    server.on_start = started
    # What is here now stays for good: collecting it again and again cost a miss up to 80 of its 650 us.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)
    try:
        return await serve(server, sock, stopping=stopping, reloading=lambda: _reload(live))
    finally:
        await live.close()


def _reload(live: Live) -> None:
    try:
        reloaded = live.reload()
    except ForetoldError as error:
        print(f"The settings stay as they were: {error}", file=sys.stderr, flush=True)
        return
    print(told_reloaded(reloaded.changed, reloaded.waiting), file=sys.stderr, flush=True)


def _banner(config: Config, assembled: Assembled, address: str, folder: DataFolder, took_s: float) -> str:
    where = (
        str(config.file)
        if config.file is not None
        else "no settings file, defaults (`foretold config example` shows all)"
    )
    lines = [f"{bold('Foretold')} {__version__} · {where}", ""]
    lines += [
        f"  model   {m.manifest.name}   {m.manifest.size_bytes / 1e6:.1f} MB, {m.manifest.licence}"
        for m in assembled.models
    ]
    lines += [f"  {'upstream':<7} {u.name}   {u.url}" for u in config.upstreams]
    lines.append(f"  answers kept in {folder.path}, good for {config.cache.fresh / 3600:g} h")
    if config.mode == "observe":
        lines.append("  observe mode: every query goes to its origin; what would have been a hit is counted")
    if assembled.disk_set_aside is not None:
        lines.append(
            f"  the kept answers were damaged and are set aside in {assembled.disk_set_aside}; a new store was begun"
        )
    if config.api_keys:
        lines.append(f"  API keys of {len({k.tenant for k in config.api_keys})} tenants may ask")
    elif is_loopback(config.server.host):
        lines.append("  no API keys: whoever is on this machine may ask, nobody else can reach it")
    else:
        lines.append("  open: whoever reaches this machine may ask")
    lines += ["", f"  API     {address}/v1   (set it as the base URL of any OpenAI client)", ""]
    if assembled.models:
        lines += _first_question(assembled.models[0].manifest.name, address)
    lines.append(f"Ready in {took_s:.1f} s. Ctrl-C stops it; kept answers stay.")
    return "\n".join(lines)


def _first_question(model: str, address: str) -> list[str]:
    body = json.dumps(
        {"model": model, "messages": [{"role": "user", "content": "Why is the sky blue?"}], "max_tokens": 64}
    )
    return [
        "Ask it something, twice:",
        "",
        f"  curl -i {address}/v1/chat/completions -H 'content-type: application/json' -d '{body}'",
        "",
        "  first   Cache-Status: Foretold; fwd=uri-miss; stored    the model computes, a second or two",
        "  again   Cache-Status: Foretold; hit; ttl=86399          from memory, under a millisecond; with `Age`",
        "",
    ]
