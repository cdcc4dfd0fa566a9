"""`foretold edge dev`"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foretold.cli.settings import config_option, json_option, url_option

if TYPE_CHECKING:
    from foretold.deploy.settings import EdgeSettings
    from foretold.edge.bindings import NodeFace
    from foretold.edge.dev import LocalEdge, Wanted
    from foretold.edge.platform import Platform
    from foretold.edge.runtime import Started

_NODE_S = 5.0


@click.command("dev", short_help="Run the Worker on this machine, in front of a running node.")
@url_option
@config_option
@click.option("--edge", "edge_file", type=click.Path(path_type=Path), help="Take Worker, secrets and settings of it.")
@click.option("--port", type=click.IntRange(0, 65535), default=8787, show_default=True, help="0 for any free port.")
@click.option("--kv-port", type=click.IntRange(0, 65535), default=8788, show_default=True, help="Where its KV listens.")
@json_option
def dev(
    url: str | None, config_file: Path | None, edge_file: Path | None, port: int, kv_port: int, as_json: bool
) -> int:
    """Runs the Worker in Cloudflare's own runtime until Ctrl-C, in front of a node of this machine.

    KV, bucket and cache are in the node's data folder and stay.  Models named @cf/… are answered by the node's own model.
    A change of the Worker, of edge.toml or of the node's models counts at once.  Needs Node.js 20.11 or newer with npm.

    The settings are those of the node, whose secret it shares; a key for a node that wants one comes from FORETOLD_KEY.

    \b
    Examples:
      foretold edge dev
      foretold edge dev --url http://127.0.0.1:8080 --port 8000
      foretold edge dev --edge edge.toml
    """
    import asyncio

    from foretold.cli.client import node_url
    from foretold.cli.settings import read_config
    from foretold.datafolder import data_folder
    from foretold.edge.dev import Wanted
    from foretold.edge.platform import platform
    from foretold.server.listening import bind

    config = read_config(config_file)
    at = node_url(url)
    wanted = Wanted(
        config=config,
        folder=data_folder(config.data),
        port=port,
        kv_port=kv_port,
        face=lambda: _face(at),
        find=lambda: _find(at),
        read=_reader(edge_file),
        edge_file=edge_file,
    )
    # First, whether there is a node at all: to install a runtime for nothing would be rude.
    wanted.find()
    for number in filter(None, (port, kv_port)):
        bind("127.0.0.1", number).close()
    return asyncio.run(_run(wanted, platform(tell=_tell), as_json=as_json))


async def _run(wanted: Wanted, platform: Platform, *, as_json: bool) -> int:
    """Until told to stop; the exit code."""
    import asyncio
    import signal

    from foretold.edge.dev import LocalEdge

    loop = asyncio.get_running_loop()
    told_to_stop: asyncio.Future[int] = loop.create_future()

    def stop(number: int) -> None:
        if told_to_stop.done():
            return
        _tell("\nStopping: what its KV and bucket hold stays.")
        told_to_stop.set_result(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    edge = LocalEdge(wanted, platform, tell=_tell)
    running = asyncio.create_task(_serve(edge, as_json=as_json))
    try:
        both: tuple[asyncio.Future[Any], ...] = (running, told_to_stop)
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        return told_to_stop.result()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await edge.close()


async def _serve(edge: LocalEdge, *, as_json: bool) -> None:
    started = await edge.start()
    if as_json:
        print(json.dumps(_told(edge, started)), flush=True)
    else:
        _tell(_banner(edge, started))
    await edge.watch()


def _told(edge: LocalEdge, started: Started) -> dict[str, object]:
    from foretold.edge.bindings import ACCOUNT, NAMESPACE

    assert edge.face is not None
    return {
        "url": started.url,
        "node": edge.face.url,
        "kv": {
            "url": started.api,
            "account_id": ACCOUNT,
            "namespace_id": NAMESPACE,
            "token_file": str(edge.token_file),
        },
    }


def _banner(edge: LocalEdge, started: Started) -> str:
    from foretold import __version__
    from foretold.cli.words import bold
    from foretold.edge.dev import tier_text

    assert edge.face is not None
    model = edge.face.own_model or next((m.name for m in edge.face.models), "MODEL")
    body = {"model": model, "messages": [{"role": "user", "content": "Why is the sky blue?"}], "max_tokens": 64}
    told = shlex.quote(json.dumps(body))
    ai = (
        f"models @cf/… are answered by {model}"
        if edge.face.own_model
        else "the node has no model of its own: no Workers AI"
    )
    tier = "".join(f"  {line}\n" if line else "\n" for line in tier_text(started, edge.token_file).splitlines())
    return f"""\
{bold("Foretold")} {__version__} · the edge on this machine, in front of {edge.face.url}

  API     {started.url}/v1
  KV      {started.api}   (as Cloudflare's API has it)
  AI      {ai}

Ask it something, twice:

  curl -i {started.url}/v1/chat/completions -H 'content-type: application/json' -d {told}

  first   Cache-Status: …Foretold-Edge; fwd=uri-miss; stored    the node answers
  again   Cache-Status: …Foretold-Edge; hit; ttl=86399          from the edge

For the node to read the edge's KV, and to write into it, put this into foretold.toml and start it again:

{tier}
Ready. Ctrl-C stops it; KV and bucket stay."""


def _reader(edge_file: Path | None) -> Callable[[], tuple[EdgeSettings | None, Path]]:
    def read() -> tuple[EdgeSettings | None, Path]:
        from foretold.deploy.settings import load_edge

        if edge_file is None:
            return None, Path()
        return load_edge(edge_file), edge_file.parent

    return read


def _find(url: str) -> None:
    """Raises NodeError if no node answers there."""
    from foretold.cli.client import request
    from foretold.errors import NodeError

    response = request(url, "GET", "/-/health", headers={}, timeout_s=_NODE_S)
    try:
        is_one = response.status == 200 and "version" in json.loads(response.read())
    except (ValueError, TypeError):
        is_one = False
    if not is_one:
        raise NodeError(f"what answers at {url} is no Foretold node: give its address with --url")


def _face(url: str) -> NodeFace:
    """What the node says of itself now.  Raises NodeError or Told."""
    from foretold.cli.client import request
    from foretold.edge.bindings import NodeFace, models_in
    from foretold.errors import NodeError, Told

    key = os.environ.get("FORETOLD_KEY", "")
    headers = {"authorization": f"Bearer {key}"} if key else {}
    response = request(url, "GET", "/v1/models", headers=headers, timeout_s=_NODE_S)
    answered = response.read()
    if response.status in (401, 403):
        raise Told(f"the node at {url} wants an API key: set FORETOLD_KEY to one", code="bad_credential", status=401)
    try:
        models = models_in(json.loads(answered)) if response.status == 200 else ()
    except ValueError:
        raise NodeError(f"what answers at {url} is no Foretold node: give its address with --url") from None
    return NodeFace(url, key, models)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
