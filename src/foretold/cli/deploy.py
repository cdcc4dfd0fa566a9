"""`foretold deploy`"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foretold.cli.edge_account import (
    FOUND_SOMETHING,
    account_of,
    described,
    described_without_secrets,
    edge_option,
    told_if_interrupted,
)
from foretold.cli.edge_watching import logs, try_it
from foretold.cli.settings import json_option

if TYPE_CHECKING:
    from foretold.deploy.changes import Permits, Step


@click.group("deploy", short_help="Put the edge Worker on Cloudflare.")
def command() -> None:
    """Put the edge Worker on Cloudflare, from what edge.toml describes.

    \b
    Examples:
      foretold deploy cloudflare plan
      foretold deploy cloudflare apply
    """


@command.group("cloudflare", short_help="plan, apply, status, try, logs, destroy.")
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
@edge_option
@_permit_options
@click.option(
    "--hits",
    "hits_percent",
    multiple=True,
    type=click.IntRange(0, 100),
    help="Tell the cost at so many percent of hits.",
)
@json_option
def plan(edge_file: Path, as_json: bool, hits_percent: tuple[int, ...], **given: Any) -> None:
    """What apply would do, what it would refuse, which hosts the route catches and what it costs.  Changes nothing.

    \b
    Examples:
      foretold deploy cloudflare plan
      foretold deploy cloudflare plan --hits 60 --hits 90
      foretold deploy cloudflare plan --json | jq .steps
    """
    from foretold.cli.deployed import told_plan
    from foretold.deploy import applying, cost

    _, edge = described(edge_file)
    with account_of(edge) as account:
        planned = applying.plan(account, edge, _permits(given))
    click.echo(told_plan(edge, planned, cost.estimate(edge, hits_percent), as_json=as_json))


@cloudflare.command("apply")
@edge_option
@_permit_options
@click.option("--yes", is_flag=True, help="Don't ask back.")
@click.option("--no-try", is_flag=True, help="Don't ask the edge at the end whether it works.")
@json_option
def apply(edge_file: Path, as_json: bool, yes: bool, no_try: bool, **given: Any) -> int:
    """Takes the steps of the plan, reads the account again, asks the edge whether it works, and prints what other
    programs need.

    At the end comes the Worker's own self-test, and a new question twice: a miss, then a hit.  It asks the model in
    [trial], else the first that the settings name, with the API key in FORETOLD_KEY; exit code 8 if something is wrong.
    Can be interrupted at any time: run again, it goes on.

    \b
    Examples:
      foretold deploy cloudflare apply
      foretold deploy cloudflare apply --yes --json | jq -r .kv_namespace_id
    """
    from foretold.cli.deployed import told_outputs, told_plan
    from foretold.cli.edge_watching import proof_of
    from foretold.deploy import applying, cost
    from foretold.deploy.describing import model_to_try

    permits = _permits(given)
    settings, edge = described(edge_file)
    with account_of(edge) as account, told_if_interrupted():
        planned = applying.plan(account, edge, permits)
        applying.refuse(planned.changes)
        steps = planned.changes.steps
        if steps:
            click.echo(told_plan(edge, planned, cost.estimate(edge), as_json=False), err=True)
            _ask(f"Take these {len(steps)} steps?", yes=yes)
        state = applying.apply(account, edge, permits, planned=planned, tell=_progress(len(steps)))
    made, proof = applying.outputs(edge, state), None
    if steps and not no_try:
        click.echo("  asking it …", err=True)
        proof = proof_of(edge, made.urls, model=model_to_try(settings), url=settings.trial.url)
    click.echo(told_outputs(made, steps=steps, proof=proof, as_json=as_json))
    return FOUND_SOMETHING if proof and proof.wrong else 0


@cloudflare.command("status")
@edge_option
@json_option
def status(edge_file: Path, as_json: bool) -> None:
    """What the account has of it, read anew; secrets need not be at hand.

    \b
    Examples:
      foretold deploy cloudflare status
    """
    from foretold.cli.deployed import told_status

    _, edge = described_without_secrets(edge_file)
    with account_of(edge) as account:
        account.check_token(edge)
        click.echo(told_status(edge, account.read(edge), as_json=as_json))


@cloudflare.command("destroy")
@edge_option
@click.option("--keep-data", is_flag=True, help="Leave the KV namespace and the buckets with what they hold.")
@click.option("--with-answers", is_flag=True, help="Delete the objects in the buckets too.")
@click.option("--yes", is_flag=True, help="Don't ask back.")
@json_option
def destroy(edge_file: Path, as_json: bool, yes: bool, keep_data: bool, with_answers: bool) -> None:
    """Removes routes, domains, Worker, KV namespace and buckets; what other Workers use stays.

    \b
    Examples:
      foretold deploy cloudflare destroy
      foretold deploy cloudflare destroy --keep-data
    """
    from foretold.cli.deployed import told_removal, told_removed
    from foretold.deploy import applying

    _, edge = described_without_secrets(edge_file)
    with account_of(edge) as account, told_if_interrupted():
        planned = applying.plan_removal(account, edge, keep_data=keep_data)
        applying.refuse(planned.changes)
        steps = planned.changes.steps
        if steps:
            click.echo(told_removal(planned.changes), err=True)
            _ask(f"Remove these {len(steps)} for good?", yes=yes)
        tell = _progress(len(steps))
        applying.destroy(account, edge, planned=planned, with_answers=with_answers, tell=tell)
        click.echo(told_removed(planned.changes, as_json=as_json))


cloudflare.add_command(try_it)
cloudflare.add_command(logs)


def _permits(given: dict[str, Any]) -> Permits:
    from foretold.deploy.changes import Permits

    return Permits(**given)


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
