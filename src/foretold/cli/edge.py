"""`foretold edge`"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foretold.cli.edge_dev import dev
from foretold.cli.edge_warm import warm

if TYPE_CHECKING:
    from foretold.deploy.plan import Edge


@click.group("edge", short_help="Run the edge on this machine, warm its KV, export it.")
def command() -> None:
    """The edge: on this machine, its KV, and for other tools.

    \b
    Examples:
      foretold edge dev
      foretold edge warm --dry-run
      foretold edge export wrangler
    """


command.add_command(dev)
command.add_command(warm)


@command.group("export", short_help="The description in another tool's form.")
def export() -> None:
    """The description in another tool's form.

    \b
    Examples:
      foretold edge export wrangler --output wrangler.jsonc
    """


@export.command("wrangler")
@click.option(
    "--edge",
    "edge_file",
    type=click.Path(path_type=Path),
    default=Path("edge.toml"),
    help="What to export; ./edge.toml by default.",
)
@click.option("--kv-namespace-id", help="The namespace's id; without it the account is asked for it.")
@click.option("--output", type=click.Path(path_type=Path), help="The file to write; stdout without it.")
def wrangler(edge_file: Path, kv_namespace_id: str | None, output: Path | None) -> None:
    """A wrangler.jsonc that is equal to the plan, for `wrangler deploy` and `wrangler dev`.

    Secrets are not in it; those that the Worker has stay.

    \b
    Examples:
      foretold edge export wrangler > wrangler.jsonc
      foretold edge export wrangler --kv-namespace-id 0f2ac74b498b48028cb68387c421e279 --output wrangler.jsonc
    """
    from foretold.deploy.describing import describe_without_secrets
    from foretold.deploy.rules import check_id
    from foretold.deploy.settings import load_edge
    from foretold.deploy.wrangler import wrangler_jsonc

    settings = load_edge(edge_file)
    edge = describe_without_secrets(settings, folder=edge_file.parent)
    if kv_namespace_id is None:
        kv_namespace_id = _namespace_id(edge)
    check_id(kv_namespace_id, "KV namespace")
    entry = edge.script.modules[0].file
    assert entry is not None
    folder = output.parent if output is not None else Path()
    text = wrangler_jsonc(
        edge,
        main=_as_seen_from(folder, entry),
        kv_namespace_id=kv_namespace_id,
        secret_names=tuple(source.name for source in settings.secrets),
        assets_folder=_as_seen_from(folder, edge.script.assets.folder) if edge.script.assets else "",
    )
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text)


def _as_seen_from(folder: Path, there: Path | None) -> str:
    assert there is not None
    return Path(os.path.relpath(there, folder)).as_posix()


def _namespace_id(edge: Edge) -> str:
    """Of the account, which is also asked what wrangler would take away."""
    from foretold.cli.edge_account import account_of
    from foretold.deploy.changes import no_longer_described
    from foretold.errors import DeployError

    with account_of(edge) as account:
        state = account.read(edge)
    if state.kv_namespace_id is None:
        raise DeployError("the account has no such KV namespace yet: apply first, or give --kv-namespace-id")
    for left in no_longer_described(edge, state):
        click.echo(
            f"note: the {left.kind} {left.name} leads to this Worker too, and is not in the file: `wrangler deploy` takes "
            "its list for all there are, and would remove it",
            err=True,
        )
    return state.kv_namespace_id
