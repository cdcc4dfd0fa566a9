"""From settings to a node that answers, and back to nothing: the whole run of `foretold serve`."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from foretold.assemble import Assembled, assemble
from foretold.cli.banner import banner
from foretold.cli.words import Progress, told_reloaded
from foretold.config.checking import reachable
from foretold.config.settings import Config
from foretold.datafolder import DataFolder, data_folder, models_folder
from foretold.errors import ForetoldError
from foretold.live import Live
from foretold.models.choices import Choices
from foretold.models.renewal import Renewal
from foretold.models.weights import held, weights_of
from foretold.observe.log import QueryLog
from foretold.server.listening import bind
from foretold.server.serve import rested, serve, server_for


async def run(config: Config, *, read: Callable[[], Config], as_json: bool) -> int:
    """Serves until told to stop; the exit code.  `read` gives the settings as they are now written.

    Raises ForetoldError for what keeps a node from starting.
    """
    began_s = time.monotonic()
    sock = bind(config.server.host, config.server.port)
    run_folder = Path(tempfile.mkdtemp(prefix="foretold-"))
    try:
        folder = data_folder(config.data)
        with held() as using:
            choices = Choices(folder.promoted)
            weights = await weights_of(config, models_folder(), using=using, tell=Progress(), choices=choices)
            brings = Renewal(models_folder(), using=using, choices=choices, read=read)
            assembled = assemble(config, folder, weights=weights, run_folder=run_folder)
            models = assembled.models
            assert models is not None
            try:
                await models.pool.begin()
                return await _serve(
                    config, assembled, sock, read=read, brings=brings, began_s=began_s, folder=folder, as_json=as_json
                )
            finally:
                await assembled.node.close()
                await models.pool.stop()
    finally:
        sock.close()
        shutil.rmtree(run_folder, ignore_errors=True)


async def _serve(
    config: Config,
    assembled: Assembled,
    sock: socket.socket,
    *,
    read: Callable[[], Config],
    brings: Renewal,
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
            assert assembled.models is not None
            manifests = [m.manifest for m in assembled.models.models]
            took_s = time.monotonic() - began_s
            told = banner(config, manifests, address, folder, set_aside=assembled.disk_set_aside, took_s=took_s)
            print(told, file=sys.stderr, flush=True)

    def stopping() -> None:
        state["ready"] = False
        if not as_json:
            print("\nStopping: running answers may end; Ctrl-C again stops at once.", file=sys.stderr, flush=True)

    if config.logs.queries == "on" or (config.logs.queries == "auto" and sys.stderr.isatty() and not as_json):
        assembled.node.counters.observers.append(QueryLog(sys.stderr))
    live = Live(config, assembled, base_url=f"{address}/v1", is_ready=lambda: state["ready"], read=read, brings=brings)
    server = server_for(live.app, config.server)
    server.on_start = started
    rested()
    try:
        await assembled.node.open()
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
