"""`foretold cache`"""

from __future__ import annotations

import json
import sys

import click

from foretold.cli.client import admin, node_url
from foretold.cli.completion import model_names
from foretold.cli.settings import json_option, url_option


@click.group("cache", short_help="Look at what is kept, and purge it.")
def command() -> None:
    """Look at what a running node keeps, and purge it.

    \b
    Examples:
      foretold cache stats
      foretold cache get 4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a
      foretold cache purge --model smollm2-135m
    """


@command.command("stats")
@url_option
@json_option
def stats(url: str | None, as_json: bool) -> None:
    """What became of all queries since the node started, and what its tiers hold.

    \b
    Examples:
      foretold cache stats
      foretold cache stats --json | jq .how
    """
    told = admin(node_url(url), "GET", "/-/stats")
    if as_json:
        click.echo(json.dumps(told, indent=2))
        return
    received = max(told["received"], 1)
    click.echo(f"received\t{told['received']}")
    for how, count in told["how"].items():
        click.echo(f"{how}\t{count}\t{count / received:.1%}")
    click.echo(f"saved\t{told['saved_ms'] / 1000:.2f} s of waiting")
    for tier in told["tiers"]:
        held, limit = tier["held_bytes"] / 2**20, tier["limit_bytes"] / 2**20
        line = f"{tier['name']}\t{held:.1f} of {limit:.0f} MiB\t{tier['hits']} hits of {tier['lookups']} look-ups"
        troubled = [f"{side}: {tier[side]}" for side in ("reading", "writing") if tier[side] != "working"]
        click.echo("\t".join([line, *troubled]))


@command.command("get")
@click.argument("key")
@url_option
@json_option
def get(key: str, url: str | None, as_json: bool) -> None:
    """One record: everything but its text.  KEY is the 64 hex digits of Cache-Status.

    \b
    Examples:
      foretold cache get 4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a
    """
    told = admin(node_url(url), "GET", f"/-/cache/record?key={key}")
    if as_json:
        click.echo(json.dumps(told, indent=2))
        return
    click.echo(f"tier\t{told['tier']}\nbody_bytes\t{told['body_bytes']}")
    for name, value in told["record"].items():
        click.echo(f"{name}\t{value if isinstance(value, str) else json.dumps(value)}")


@command.command("purge")
@click.option("--key", help="One record, by the 64 hex digits of its key.")
@click.option("--model", shell_complete=model_names, help="All answers of a model.")
@click.option("--revision", help="All answers of a model's revision.")
@click.option("--tag", help="All answers that a caller tagged so; see --of.")
@click.option("--of", "of_tenant", help="Whose tag: tenant:NAME, credential:TEXT or local: (the default).")
@click.option("--tenant", help="All answers of a tenant: tenant:NAME, credential:TEXT, local: or shared:ROUTE.")
@click.option("--namespace", help="All answers in a namespace, by its 64 hex digits.")
@click.option("--everything", is_flag=True, help="All answers.")
@click.option("--yes", is_flag=True, help="Don't ask back.")
@url_option
@json_option
def purge(
    url: str | None, as_json: bool, yes: bool, everything: bool, of_tenant: str | None, **kinds: str | None
) -> None:
    """Purges answers; it takes effect with the next query.

    \b
    Examples:
      foretold cache purge --model smollm2-135m
      foretold cache purge --tag news --of tenant:web
      foretold cache purge --everything --yes
    """
    asked: dict[str, str | bool] = {kind: value for kind, value in kinds.items() if value is not None}
    if everything:
        asked["everything"] = True
    if len(asked) != 1:
        raise click.UsageError(
            "name one thing to purge: --key, --model, --revision, --tag, --tenant, --namespace or --everything"
        )
    kind = next(iter(asked))
    if of_tenant is not None and kind != "tag":
        raise click.UsageError(f"--of says whose tag it is: it goes with --tag, not with --{kind}")
    if not yes and kind != "key":
        if not sys.stdin.isatty():
            raise click.UsageError(f"this purges by {kind}: add --yes")
        click.confirm(f"Purge by {kind}?", abort=True, err=True)
    told = admin(
        node_url(url), "POST", "/-/cache/purge", {**asked, **({} if of_tenant is None else {"of_tenant": of_tenant})}
    )
    if as_json:
        click.echo(json.dumps(told))
        return
    value = next(iter(asked.values()))
    named = "everything" if value is True else f"by {kind} {value!r}"
    click.echo(f"purged {named}: no such answer is given from the next query on")
