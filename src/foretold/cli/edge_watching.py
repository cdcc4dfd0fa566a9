"""`foretold deploy cloudflare try` and `logs`: what a deployed edge answers and says."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foretold.cli.edge_account import FOUND_SOMETHING, account_of, described_without_secrets, edge_option
from foretold.cli.settings import json_option

if TYPE_CHECKING:
    from foretold.deploy.plan import Edge
    from foretold.deploy.proving import Proof


def proof_of(edge: Edge, urls: tuple[str, ...], *, model: str, url: str) -> Proof:
    """Asks a deployed edge all that can be asked; the API key comes from FORETOLD_KEY."""
    import secrets

    from foretold.deploy.proving import prove, target

    question = f"Say yes. ({secrets.token_hex(8)})"
    key = os.environ.get("FORETOLD_KEY", "")
    return prove(edge, target(edge, urls, model=model, url=url), key=key, question=question, pause=time.sleep)


@click.command("try")
@click.argument("model")
@edge_option
@click.option("--url", default="", help="Where to ask; else where edge.toml says that the Worker is reached.")
@json_option
def try_it(model: str, edge_file: Path, url: str, as_json: bool) -> int:
    """Asks the deployed edge a new question twice: first a miss, then a hit; exit code 8 if none comes.

    MODEL is one that the edge's settings know.  The API key comes from FORETOLD_KEY.

    \b
    Examples:
      foretold deploy cloudflare try gpt-4.1-mini
      foretold deploy cloudflare try gpt-4.1-mini --url https://ai.example.com
    """
    import secrets

    from foretold.cli.deployed import told_tries
    from foretold.deploy.probing import chat, predict, probe
    from foretold.deploy.proving import Target, target
    from foretold.errors import DeployError

    at: Target | None
    if url and not edge_file.exists():
        at = Target(base=url.rstrip("/"), model=model, catches=lambda path: True)
    else:
        settings, edge = described_without_secrets(edge_file)
        at = target(edge, _urls(edge), model=model, url=url or settings.trial.url)
    if at is None:
        raise DeployError("no one address is known: the route catches many hosts; name one with --url")
    question = f"Say yes. ({secrets.token_hex(8)})"
    both = chat(model, question), predict(model, question)
    asked = next((asked for asked in both if at.catches(asked.path)), None)
    if asked is None:
        raise DeployError("the route catches neither /v1/chat/completions nor /predict/MODEL: there is nothing to ask")
    seen = probe(at.base, asked, key=os.environ.get("FORETOLD_KEY", ""))
    click.echo(told_tries(seen, as_json=as_json))
    return 0 if seen[0].how == "miss" and seen[-1].how == "hit" else FOUND_SOMETHING


def _urls(edge: Edge) -> tuple[str, ...]:
    """Known without the account, except on workers.dev."""
    from foretold.deploy.applying import outputs
    from foretold.deploy.state import State

    found = outputs(edge, State()).urls
    if found or not edge.workers_dev:
        return found
    with account_of(edge) as account:
        return outputs(edge, account.read(edge)).urls


@click.command("logs")
@edge_option
@click.option("--count", type=click.IntRange(1), help="End after so many; else go on until Ctrl-C.")
@click.option("--kept", is_flag=True, help="What [logs] keeps in its bucket, instead of what happens now.")
@click.option("--last", type=click.IntRange(1, 1000), default=10, help="With --kept: so many objects, 10 by default.")
@json_option
def logs(edge_file: Path, count: int | None, kept: bool, last: int, as_json: bool) -> None:
    """What the Worker does and says just now, a line a request; or what it has kept.

    No header field, no query and no body is shown.

    \b
    Examples:
      foretold deploy cloudflare logs
      foretold deploy cloudflare logs --count 1 --json
      foretold deploy cloudflare logs --kept
    """
    _, edge = described_without_secrets(edge_file)
    if kept:
        _tell_kept(edge, last)
    else:
        _tell_live(edge, count, as_json=as_json)


def _tell_live(edge: Edge, count: int | None, *, as_json: bool) -> None:
    import asyncio

    from foretold.cli.deployed import told_run
    from foretold.deploy.tailing import follow

    async def tell(url: str) -> None:
        told = 0
        async for run in follow(url):
            click.echo(told_run(run, as_json=as_json))
            told += 1
            if told == count:
                return

    with account_of(edge) as account, account.tail(edge.script.name) as url:
        click.echo(f"listening to {edge.script.name}; Ctrl-C ends it", err=True)
        asyncio.run(tell(url))


def _tell_kept(edge: Edge, last: int) -> None:
    from foretold.deploy.tailing import lines_of
    from foretold.errors import ConfigError

    bucket = edge.script.log_bucket
    if bucket is None:
        raise ConfigError("no log is kept: name a bucket in [logs], then apply")
    with account_of(edge) as account:
        found = account.objects(bucket.name)
        for key in found[-last:]:
            for line in lines_of(account.object(bucket.name, key), key):
                click.echo(line)
        if not found:
            click.echo(f"the bucket {bucket.name} holds nothing yet", err=True)
