"""What the commands of a deployment share: the description in edge.toml, and the account it is for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from foretold.deploy.account import Account
    from foretold.deploy.plan import Edge
    from foretold.deploy.settings import EdgeSettings

FOUND_SOMETHING = 8


def edge_option(function: Any) -> Any:
    return click.option(
        "--edge",
        "edge_file",
        type=click.Path(path_type=Path),
        default=Path("edge.toml"),
        help="What to deploy; ./edge.toml by default.",
    )(function)


def described(edge_file: Path) -> tuple[EdgeSettings, Edge]:
    """With its secrets.  Raises ConfigError."""
    from foretold.deploy.describing import describe
    from foretold.deploy.settings import load_edge

    settings = load_edge(edge_file)
    return settings, describe(settings, folder=edge_file.parent)


def described_without_secrets(edge_file: Path) -> tuple[EdgeSettings, Edge]:
    """For what sends none: they need not be at hand.  Raises ConfigError."""
    from foretold.deploy.describing import describe_without_secrets
    from foretold.deploy.settings import load_edge

    settings = load_edge(edge_file)
    return settings, describe_without_secrets(settings, folder=edge_file.parent)


@contextmanager
def account_of(edge: Edge) -> Iterator[Account]:
    """Raises ConfigError, DeployForbidden."""
    from foretold.deploy.account import Account
    from foretold.deploy.asking import API, client

    address = os.environ.get("CLOUDFLARE_API_BASE_URL") or API
    with client(os.environ.get("CLOUDFLARE_API_TOKEN", "").strip(), base_url=address, retries=3) as sdk:
        yield Account(sdk, edge.account_id)


@contextmanager
def told_if_interrupted() -> Iterator[None]:
    try:
        yield
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted: what was done stays; run it again to go on", err=True)
        raise
