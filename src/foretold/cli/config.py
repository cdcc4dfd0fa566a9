"""`foretold config`"""

from __future__ import annotations

import json
from pathlib import Path

import click

from foretold.cli.settings import config_option, json_option, read_config, url_option


@click.group("config", short_help="Check, show and explain the settings.")
def command() -> None:
    """Check, show and explain the settings.

    \b
    Examples:
      foretold config example > foretold.toml
      foretold config check
      foretold config show --json
    """


@command.command("check")
@config_option
@json_option
def check(config_file: Path | None, as_json: bool) -> None:
    """Reads the settings and says whether they are valid, and whether each model has room; exit code 3 if not.

    \b
    Examples:
      foretold config check
      foretold config check --config /etc/foretold.toml
    """
    from foretold.datafolder import models_folder
    from foretold.errors import ConfigError
    from foretold.models.weights import why_no_room

    config = read_config(config_file)
    if told := why_no_room(config, models_folder()):
        raise ConfigError("; ".join(told))
    where = str(config.file) if config.file is not None else "no file, defaults"
    counts = {"routes": len(config.routes), "upstreams": len(config.upstreams), "models": len(config.models)}
    if as_json:
        click.echo(json.dumps({"valid": True, "file": where, **counts}))
    else:
        click.echo(f"{where}: valid; " + ", ".join(f"{count} {name}" for name, count in counts.items()))


@command.command("show")
@config_option
@json_option
def show(config_file: Path | None, as_json: bool) -> None:
    """The settings in force, defaults filled in; secrets by where they come from.

    \b
    Examples:
      foretold config show
      foretold config show --json | jq .server
    """
    import dataclasses

    from foretold.config.example import shown
    from foretold.models.memory import pool_bytes

    config = read_config(config_file)
    told = shown(dataclasses.replace(config, pool=dataclasses.replace(config.pool, memory=pool_bytes(config))))
    if as_json:
        click.echo(json.dumps(told, indent=2))
        return
    for line in _flat(told, ""):
        click.echo(line)


@command.command("reload")
@url_option
@json_option
def reload(url: str | None, as_json: bool) -> None:
    """Lets a running node read its settings anew; running answers end by the old ones.

    API keys, upstreams, routes, lifetimes and doors are in force with the next request.  What waits for a restart is
    named.  Settings that are not valid change nothing.

    \b
    Examples:
      foretold config reload
      foretold config check && foretold config reload --json
    """
    from foretold.cli.client import admin, node_url
    from foretold.cli.words import told_reloaded

    told = admin(node_url(url), "POST", "/-/config/reload")
    click.echo(json.dumps(told) if as_json else told_reloaded(told["changed"], told["waiting"]))


@command.command("example")
def example() -> None:
    """A documented settings file with every setting and its default.

    \b
    Examples:
      foretold config example > foretold.toml
    """
    from foretold.config.example import example as text

    click.echo(text(), nl=False)


@command.command("api-key")
@click.argument("tenant")
@json_option
def api_key(tenant: str, as_json: bool) -> None:
    """Makes an API key for TENANT: the key, once, on stderr; the lines that let it in, which hold only its digest.

    \b
    Examples:
      foretold config api-key web
      foretold config api-key web >> foretold.toml
    """
    import secrets

    from foretold.contract.namespace import api_key_hash

    key = f"fk_{secrets.token_urlsafe(32)}"
    if as_json:
        click.echo(json.dumps({"api_key": key, "tenant": tenant, "sha256": api_key_hash(key)}))
        return
    click.echo(f"The key, shown this once:  {key}\n", err=True)
    click.echo(f'[[api_keys]]\ntenant = {json.dumps(tenant, ensure_ascii=False)}\nsha256 = "{api_key_hash(key)}"')


def _flat(value: object, name: str) -> list[str]:
    if isinstance(value, dict):
        return [line for k, v in value.items() for line in _flat(v, f"{name}.{k}" if name else k)]
    if isinstance(value, list) and any(isinstance(v, dict) for v in value):
        return [line for at, v in enumerate(value) for line in _flat(v, f"{name}[{at}]")]
    return [f"{name}\t{json.dumps(value, ensure_ascii=False)}"]
