"""`foretold deploy`"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foretold.cli.settings import json_option

if TYPE_CHECKING:
    from foretold.deploy.account import Account
    from foretold.deploy.changes import Permits, Step
    from foretold.deploy.plan import Edge


FOUND_SOMETHING = 8


@click.group("deploy", short_help="Put the edge Worker on Cloudflare.")
def command() -> None:
    """Put the edge Worker on Cloudflare, from what edge.toml describes.

    \b
    Examples:
      foretold deploy cloudflare plan
      foretold deploy cloudflare apply
    """


@command.group("cloudflare", short_help="plan, apply, status, try, destroy.")
def cloudflare() -> None:
    """The KV namespace, the R2 bucket, the Worker with its bindings and the route that edge.toml describes.

    What is there is read from the account each time; nothing is kept in a file.  The API token comes from
    CLOUDFLARE_API_TOKEN, the account from edge.toml or CLOUDFLARE_ACCOUNT_ID.

    \b
    Examples:
      foretold deploy cloudflare plan              what apply would do; changes nothing
      foretold deploy cloudflare apply --yes
      foretold deploy cloudflare status --json
      foretold deploy cloudflare destroy
    """


def _edge_option(function: Any) -> Any:
    return click.option(
        "--edge",
        "edge_file",
        type=click.Path(path_type=Path),
        default=Path("edge.toml"),
        help="What to deploy; ./edge.toml by default.",
    )(function)


def _permit_options(function: Any) -> Any:
    for option in (
        click.option("--drop-secret", "drop_secrets", multiple=True, help="Remove a secret that was set elsewhere."),
        click.option(
            "--detach", is_flag=True, help="Remove this Worker's routes and domains that edge.toml doesn't name."
        ),
        click.option("--take-domain", is_flag=True, help="Take the domain over from another Worker."),
        click.option("--take-route", is_flag=True, help="Take the route over from another Worker."),
        click.option("--replace-script", is_flag=True, help="Replace a Worker that this program did not deploy."),
    ):
        function = option(function)
    return function


@cloudflare.command("plan")
@_edge_option
@_permit_options
@json_option
def plan(edge_file: Path, as_json: bool, **given: Any) -> None:
    """What apply would do, what it would refuse, which hosts the route catches and what it costs.  Changes nothing.

    \b
    Examples:
      foretold deploy cloudflare plan
      foretold deploy cloudflare plan --json | jq .steps
    """
    from foretold.cli.deployed import told_plan
    from foretold.deploy import applying, cost

    permits = _permits(given)

    def act(account: Account, edge: Edge) -> None:
        planned = applying.plan(account, edge, permits)
        click.echo(told_plan(edge, planned, cost.estimate(edge), as_json=as_json))

    with_account(edge_file, act)


@cloudflare.command("apply")
@_edge_option
@_permit_options
@click.option("--yes", is_flag=True, help="Don't ask back.")
@json_option
def apply(edge_file: Path, as_json: bool, yes: bool, **given: Any) -> None:
    """Takes the steps of the plan, reads the account again, and prints what other programs need.

    Can be interrupted at any time: run again, it goes on.

    \b
    Examples:
      foretold deploy cloudflare apply
      foretold deploy cloudflare apply --yes --json | jq -r .kv_namespace_id
    """
    from foretold.cli.deployed import told_outputs, told_plan
    from foretold.deploy import applying, cost

    permits = _permits(given)

    def act(account: Account, edge: Edge) -> None:
        planned = applying.plan(account, edge, permits)
        applying.refuse(planned.changes)
        steps = planned.changes.steps
        if steps:
            click.echo(told_plan(edge, planned, cost.estimate(edge), as_json=False), err=True)
            _ask(f"Take these {len(steps)} steps?", yes=yes)
        state = applying.apply(account, edge, permits, planned=planned, tell=_progress(len(steps)))
        click.echo(told_outputs(edge, state, steps=steps, as_json=as_json))

    with_account(edge_file, act)


@cloudflare.command("status")
@_edge_option
@json_option
def status(edge_file: Path, as_json: bool) -> None:
    """What the account has of it, read anew; secrets need not be at hand.

    \b
    Examples:
      foretold deploy cloudflare status
    """
    from foretold.cli.deployed import told_status

    def act(account: Account, edge: Edge) -> None:
        account.check_token(edge)
        click.echo(told_status(edge, account.read(edge), as_json=as_json))

    with_account(edge_file, act, with_secrets=False)


@cloudflare.command("try")
@click.argument("model")
@_edge_option
@click.option("--url", help="Where to ask; else where edge.toml says that the Worker is reached.")
@json_option
def try_it(model: str, edge_file: Path, url: str | None, as_json: bool) -> int:
    """Asks the deployed edge a new question twice: first a miss, then a hit; exit code 8 if none comes.

    MODEL is one that the edge's settings know.  The API key comes from FORETOLD_KEY.

    \b
    Examples:
      foretold deploy cloudflare try gpt-4.1-mini
      foretold deploy cloudflare try gpt-4.1-mini --url https://ai.example.com
    """
    import secrets

    from foretold.cli.deployed import told_tries
    from foretold.deploy.probing import probe

    at = url or _first_url(edge_file)
    question = f"Say yes. ({secrets.token_hex(8)})"
    seen = probe(at, model, key=os.environ.get("FORETOLD_KEY", ""), question=question)
    click.echo(told_tries(seen, as_json=as_json))
    return 0 if [s.how for s in seen][:1] == ["miss"] and seen[-1].how == "hit" else FOUND_SOMETHING


def _first_url(edge_file: Path) -> str:
    from foretold.deploy.applying import outputs

    found: list[str] = []

    def act(account: Account, edge: Edge) -> None:
        found.extend(outputs(edge, account.read(edge)).urls)

    with_account(edge_file, act, with_secrets=False)
    return found[0]


@cloudflare.command("destroy")
@_edge_option
@click.option("--keep-data", is_flag=True, help="Leave the KV namespace and the bucket with their answers.")
@click.option("--with-answers", is_flag=True, help="Delete the objects in the bucket too.")
@click.option("--yes", is_flag=True, help="Don't ask back.")
@json_option
def destroy(edge_file: Path, as_json: bool, yes: bool, keep_data: bool, with_answers: bool) -> None:
    """Removes routes, domains, Worker, KV namespace and bucket; what other Workers use stays.

    \b
    Examples:
      foretold deploy cloudflare destroy
      foretold deploy cloudflare destroy --keep-data
    """
    from foretold.cli.deployed import told_removal, told_removed
    from foretold.deploy import applying

    def act(account: Account, edge: Edge) -> None:
        planned = applying.plan_removal(account, edge, keep_data=keep_data)
        applying.refuse(planned.changes)
        steps = planned.changes.steps
        if steps:
            click.echo(told_removal(planned.changes), err=True)
            _ask(f"Remove these {len(steps)} for good?", yes=yes)
        tell = _progress(len(steps))
        applying.destroy(account, edge, planned=planned, with_answers=with_answers, tell=tell)
        click.echo(told_removed(planned.changes, as_json=as_json))

    with_account(edge_file, act, with_secrets=False)


def _permits(given: dict[str, Any]) -> Permits:
    from foretold.deploy.changes import Permits

    return Permits(**given)


def with_account(edge_file: Path, act: Callable[[Account, Edge], None], *, with_secrets: bool = True) -> None:
    from foretold.deploy.account import Account
    from foretold.deploy.asking import API, client
    from foretold.deploy.describing import describe, describe_without_secrets
    from foretold.deploy.settings import load_edge

    settings = load_edge(edge_file)
    make = describe if with_secrets else describe_without_secrets
    edge = make(settings, folder=edge_file.parent)
    address = os.environ.get("CLOUDFLARE_API_BASE_URL") or API
    with client(os.environ.get("CLOUDFLARE_API_TOKEN", "").strip(), base_url=address, retries=3) as sdk:
        act(Account(sdk, edge.account_id), edge)


def _ask(question: str, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("this changes the account: look at the plan, then add --yes")
    click.confirm(question, abort=True, err=True)


def _progress(count: int) -> Callable[[Step], None]:
    at = 0

    def tell(step: Step) -> None:
        nonlocal at
        at += 1
        click.echo(f"  {at} of {count}  {step.does} {step.kind} {step.name} …", err=True)

    return tell
