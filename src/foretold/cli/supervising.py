"""The run of `foretold serve` with several workers: what the parent does, beside looking after them."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from foretold.cli.banner import banner
from foretold.cli.words import Progress, told_reloaded
from foretold.config.checking import reachable
from foretold.config.settings import Config
from foretold.datafolder import DataFolder, data_folder, models_folder
from foretold.errors import ForetoldError
from foretold.models.choices import Choices
from foretold.models.configured import local_models_of
from foretold.models.renewal import Renewal
from foretold.models.weights import held, weights_of
from foretold.server.listening import bind
from foretold.workers.beginning import Given, config_of
from foretold.workers.parent import Parent


async def run(config: Config, *, text: str, given: Given, read: Callable[[], str], as_json: bool) -> int:
    """Serves until told to stop; the exit code.

    `text` are the settings, with what the command line has `given` instead; `read` gives them as they are now written.

    Raises ForetoldError for what keeps a node from starting.
    """
    began_s = time.monotonic()
    sock = bind(config.server.host, config.server.port)
    url = f"http://{reachable(config.server.host)}:{sock.getsockname()[1]}"
    run_folder = Path(tempfile.mkdtemp(prefix="foretold-"))
    try:
        folder = data_folder(config.data)
        # Made once, here: the workers only read them.
        folder.secret()
        folder.admin_token()
        with held() as using:
            choices = Choices(folder.promoted)
            weights = await weights_of(config, models_folder(), using=using, tell=Progress(), choices=choices)
            models = local_models_of(config, weights, run_folder)
            try:
                await models.pool.begin()
                logs = config.logs.queries
                parent = Parent(
                    config,
                    sock,
                    text=text,
                    given=given,
                    url=url,
                    read=read,
                    data=folder.path,
                    models=models,
                    brings=Renewal(
                        models_folder(),
                        using=using,
                        choices=choices,
                        read=lambda: config_of(read(), config.file, given),
                    ),
                    logs_queries=logs == "on" or (logs == "auto" and sys.stderr.isatty() and not as_json),
                    tell=_tell,
                )
                return await _attend(parent, config, folder, url, began_s=began_s, as_json=as_json)
            finally:
                await models.pool.stop()
    finally:
        sock.close()
        shutil.rmtree(run_folder, ignore_errors=True)


async def _attend(
    parent: Parent, config: Config, folder: DataFolder, url: str, *, began_s: float, as_json: bool
) -> int:
    """From the first worker's start to the last one's end."""
    told_to_stop = asyncio.Event()
    exit_code = 0
    tasks: set[asyncio.Task[None]] = set()

    def keep(task: asyncio.Task[None]) -> None:
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def stop(number: int) -> None:
        nonlocal exit_code
        if not told_to_stop.is_set() and not as_json:
            print("\nStopping: running answers may end; Ctrl-C again stops at once.", file=sys.stderr, flush=True)
        exit_code = 128 + number
        told_to_stop.set()
        keep(asyncio.create_task(parent.stop()))

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    loop.add_signal_handler(signal.SIGHUP, lambda: keep(asyncio.create_task(_reload(parent))))
    stopped = asyncio.create_task(told_to_stop.wait())
    ready = asyncio.create_task(parent.ready())
    try:
        await asyncio.wait([ready, stopped], return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            ready.result()
            _told_ready(parent, config, folder, url, took_s=time.monotonic() - began_s, as_json=as_json)
            await stopped
        return exit_code
    finally:
        if not told_to_stop.is_set():
            await parent.stop()
        await parent.ended()
        for task in (ready, stopped):
            task.cancel()
        await asyncio.gather(ready, stopped, *tasks, return_exceptions=True)


def _told_ready(parent: Parent, config: Config, folder: DataFolder, url: str, *, took_s: float, as_json: bool) -> None:
    if as_json:
        pids = [seat.pid for seat in parent.seats]
        told = {"url": url, "pid": os.getpid(), "data": str(folder.path), "workers": pids}
        print(json.dumps(told), flush=True)
        return
    aside = next((Path(seat.set_aside) for seat in parent.seats if seat.set_aside is not None), None)
    print(banner(config, parent.manifests, url, folder, set_aside=aside, took_s=took_s), file=sys.stderr, flush=True)


async def _reload(parent: Parent) -> None:
    try:
        told = await parent.reload()
    except ForetoldError as error:
        _tell(f"The settings stay as they were: {error}")
        return
    _tell(told_reloaded(told["changed"], told["waiting"]))


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
