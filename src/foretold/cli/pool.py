"""`foretold models ps`, `load`, `unload` and `promote`: the models that a running node has in memory."""

from __future__ import annotations

import contextlib
import json
import os
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import click

from foretold.cli.client import admin, node_url
from foretold.cli.words import Progress
from foretold.errors import NodeError, Told

# A large model is read from end to end before it is loaded.
LOAD_S = 900.0
# It may have to be fetched first.
PROMOTE_S = 24 * 3600.0
_LOOK_EVERY_S = 0.3


def show(url: str | None, *, as_json: bool) -> None:
    told = admin(node_url(url), "GET", "/-/models")
    if as_json:
        click.echo(json.dumps(told, indent=2))
        return
    for model in told["models"]:
        click.echo(line_of(model))
        for other in model["others"]:
            click.echo(f"{line_of(other)}\t{other['standing']}")
        if model["promotion"] is not None:
            click.echo(f"{model['name']}\tpromotion\t{_how_far(model['promotion'])}")
    click.echo(f"together\t{_mb(told['taken_bytes'])} of {_mb(told['memory_bytes'])}")


def load(name: str, url: str | None, keep_alive_s: int | None, *, as_json: bool) -> None:
    asked = {"model": name, **({} if keep_alive_s is None else {"keep_alive": keep_alive_s})}
    _say(admin(node_url(url), "POST", "/-/models/load", asked, timeout_s=LOAD_S), as_json=as_json)


def unload(name: str, url: str | None, *, as_json: bool) -> None:
    _say(admin(node_url(url), "POST", "/-/models/unload", {"model": name}), as_json=as_json)


def promote(name: str, url: str | None, revision: str, *, as_json: bool) -> None:
    """What the node does for it is shown as it goes on."""
    node = node_url(url)
    asked = {"model": name, **({"revision": revision} if revision else {})}
    with ThreadPoolExecutor(1) as beside:
        asking = beside.submit(admin, node, "POST", "/-/models/promote", asked, timeout_s=PROMOTE_S)
        try:
            _watch(asking, node, name)
        except KeyboardInterrupt:
            click.echo("The node goes on with it: `foretold models ps` shows how far it is.", err=True)
            os._exit(130)  # without the answer, for which the other thread would wait
        model = asking.result()
    if as_json:
        click.echo(json.dumps(model))
        return
    click.echo(line_of(model) + ("" if model["promoted"] else "\tas before"))


def _watch(asking: Future[Any], node: str, name: str) -> None:
    """Returns when it is answered."""
    progress, step = Progress(), ""
    while not wait([asking], timeout=_LOOK_EVERY_S).done:
        with contextlib.suppress(NodeError, Told):  # whatever it is, the answer itself says it
            models = admin(node, "GET", "/-/models")["models"]
            now = next((model["promotion"] for model in models if model["name"] == name), None)
            if now is not None:
                if now["step"] != step:
                    step = now["step"]
                    progress.step(step)
                progress.progress(now["done_bytes"], now["total_bytes"])


def _how_far(promotion: dict[str, Any]) -> str:
    done_bytes, total_bytes = promotion["done_bytes"], promotion["total_bytes"]
    return str(promotion["step"]) + (f", {done_bytes / total_bytes:.0%}" if total_bytes else "")


def line_of(model: dict[str, Any]) -> str:
    """One model, its columns parted by tabs."""
    doing = f"{model['answering']} of {model['parallel']} answering"
    if model["waiting"]:
        doing += f", {model['waiting']} waiting"
    if model["idle_s"] is not None:
        doing = f"idle for {model['idle_s']:.0f} s"
    rest = []
    if model["state"] == "asleep":
        rest.append(f"takes {_mb(model['asleep_bytes'])} now")
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
