"""`foretold models ps`, `load` and `unload`: the models that a running node has in memory."""

from __future__ import annotations

import json
from typing import Any

import click

from foretold.cli.client import admin, node_url

# A large model is read from end to end before it is loaded.
LOAD_S = 900.0


def show(url: str | None, *, as_json: bool) -> None:
    told = admin(node_url(url), "GET", "/-/models")
    if as_json:
        click.echo(json.dumps(told, indent=2))
        return
    for model in told["models"]:
        click.echo(line_of(model))
    click.echo(f"together\t{_mb(told['taken_bytes'])} of {_mb(told['memory_bytes'])}")


def load(name: str, url: str | None, keep_alive_s: int | None, *, as_json: bool) -> None:
    asked = {"model": name, **({} if keep_alive_s is None else {"keep_alive": keep_alive_s})}
    _say(admin(node_url(url), "POST", "/-/models/load", asked, timeout_s=LOAD_S), as_json=as_json)


def unload(name: str, url: str | None, *, as_json: bool) -> None:
    _say(admin(node_url(url), "POST", "/-/models/unload", {"model": name}), as_json=as_json)


def line_of(model: dict[str, Any]) -> str:
    """One model, its columns parted by tabs."""
    doing = f"{model['answering']} of {model['parallel']} answering"
    if model["waiting"]:
        doing += f", {model['waiting']} waiting"
    if model["idle_s"] is not None:
        doing = f"idle for {model['idle_s']:.0f} s"
    rest = []
    if model["pinned"]:
        rest.append("pinned")
    if model["expires_in_s"] is not None:
        rest.append(f"goes in {model['expires_in_s']:.0f} s")
    columns = [model["name"], model["revision"][:12], model["state"], _mb(model["memory_bytes"])]
    return "\t".join([*columns, *([doing] if model["state"] != "unloaded" or model["waiting"] else []), *rest])


def _say(model: dict[str, Any], *, as_json: bool) -> None:
    click.echo(json.dumps(model) if as_json else line_of(model))


def _mb(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"
