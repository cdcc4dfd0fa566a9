"""`foretold completion`, and what it offers beside commands, options and files."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

import click

SHELLS = ("bash", "zsh", "fish")
_NODE_S = 1.0


class _Shell(click.ParamType[str]):
    """A shell that there is a script for."""

    name = "shell"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "[" + "|".join(SHELLS) + "]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in SHELLS:
            raise click.UsageError(f"there is no completion for {value!r}: there is one for {', '.join(SHELLS)}", ctx)
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        return _beginning_with(incomplete, SHELLS)


@click.command("completion", short_help="Print the script that completes commands in your shell.")
@click.argument("shell", type=_Shell())
def command(shell: str) -> None:
    """Prints the script that lets SHELL complete commands, options, model names and files at the TAB key.

    \b
    To have it in every new shell, once:
      bash   foretold completion bash > ~/.local/share/bash-completion/completions/foretold
             (the folder must be there and the package bash-completion installed; else, in ~/.bashrc:
             source <(foretold completion bash))
      zsh    in ~/.zshrc, after compinit:  source <(foretold completion zsh)
      fish   foretold completion fish > ~/.config/fish/completions/foretold.fish

    \b
    Examples:
      foretold completion bash
      source <(foretold completion bash)
    """
    from click.shell_completion import get_completion_class

    from foretold.cli import COMPLETE, cli

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "foretold", COMPLETE).source())


def model_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    """Those that the running node names; where none answers, those of the settings."""
    return _beginning_with(incomplete, _of_the_node(ctx.params.get("url")) or _of_the_settings())


def library_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    """Models of libraries: those of the settings, and those that are on this machine."""
    from foretold.cli.settings import read_config
    from foretold.datafolder import models_folder
    from foretold.errors import ConfigError
    from foretold.models.library.kept import Kept

    named = [origin.name for origin in Kept(models_folder()).origins()]
    with contextlib.suppress(ConfigError):
        named += [model.name for model in read_config(None).models if model.is_of_a_library]
    return _beginning_with(incomplete, sorted(set(named)))


def _beginning_with(incomplete: str, names: Any) -> list[Any]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _of_the_node(url: str | None) -> list[str]:
    from foretold.cli.client import node_url, request
    from foretold.errors import NodeError

    key = os.environ.get("FORETOLD_KEY")
    headers = {"authorization": f"Bearer {key}"} if key else {}
    # Whatever goes wrong at a TAB must not be printed into the command that is being typed.
    with contextlib.suppress(NodeError, OSError, ValueError, KeyError, TypeError):
        answered = request(node_url(url), "GET", "/v1/models", headers=headers, timeout_s=_NODE_S).read()
        return [str(model["id"]) for model in json.loads(answered)["data"]]
    return []


def _of_the_settings() -> list[str]:
    from foretold.cli.settings import read_config
    from foretold.errors import ConfigError

    with contextlib.suppress(ConfigError):
        config = read_config(None)
        routed = [name for route in config.routes for name in route.models if not set(name) & set("*?[")]
        own = [model.name for model in config.models]
        if not config.models and not config.upstreams:
            from foretold.models.manifest import SMOLLM2

            own = [SMOLLM2.name]
        return list(dict.fromkeys(own + routed))
    return []
