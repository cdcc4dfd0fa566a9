"""`foretold edge warm`"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foretold.cli.settings import config_option, json_option

if TYPE_CHECKING:
    from foretold.config import Config
    from foretold.config.settings import RouteSettings
    from foretold.edge.warming import Choice, Chosen, Pushed

FOUND_SOMETHING = 8


@click.command("warm", short_help="Push records of a node to the edge's KV.")
@config_option
@click.option("--model", "models", multiple=True, help="Answers of a model; * stands for anything. May be repeated.")
@click.option("--route", help="Answers that this route of the settings makes.")
@click.option("--tag", "tags", multiple=True, help="What a caller tagged so; see --of.  Repeated: all of them.")
@click.option("--of", "of_tenant", help="Whose tags: tenant:NAME, credential:TEXT or local: (the default).")
@click.option("--tenant", help="Answers of a tenant: tenant:NAME, credential:TEXT, local: or shared:ROUTE.")
@click.option("--namespace", help="Answers in a namespace and those below it, by its 64 hex digits.")
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=1000, show_default=True, help="So many at most.")
@click.option(
    "--order", type=click.Choice(["newest", "slowest"]), default="newest", show_default=True, help="Which come first."
)
@click.option("--dry-run", is_flag=True, help="Say what would go; KV is not asked.")
@json_option
def warm(
    config_file: Path | None,
    models: tuple[str, ...],
    route: str | None,
    tags: tuple[str, ...],
    of_tenant: str | None,
    tenant: str | None,
    namespace: str | None,
    limit: int,
    order: str,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Pushes answers that the node's disk holds to the KV of its tier cloudflare_kv, where edges find them.

    Without a choice all go, the newest first, 1000 at most: that is what Cloudflare's free plan takes a day.  `slowest`
    takes those first that took longest to make.  The node may be running.  Exit code 8 if KV refused some.

    \b
    Examples:
      foretold edge warm --dry-run
      foretold edge warm --model 'gpt-*' --limit 200 --order slowest
      foretold edge warm --tag faq --of tenant:web
    """
    import asyncio

    from foretold.cli.settings import read_config
    from foretold.datafolder import data_folder
    from foretold.edge.warming import Choice

    if of_tenant is not None and not tags:
        raise click.UsageError("--of says whose tags they are: it goes with --tag")
    config = read_config(config_file)
    folder = data_folder(config.data)
    secret = folder.secret()
    chosen_tags = _tags(secret, tags, of_tenant or "local:", tenant=tenant, namespace=namespace)
    choice = Choice(models=models, tags=chosen_tags, route=_route(config, route), order=order, limit=limit)
    return asyncio.run(_warm(config, choice, dry_run=dry_run, as_json=as_json))


async def _warm(config: Config, choice: Choice, *, dry_run: bool, as_json: bool) -> int:
    from foretold.assemble import DEFAULT_TIERS, api_of, kv_of, wall_ms
    from foretold.cli.words import Progress
    from foretold.datafolder import data_folder
    from foretold.edge import warming
    from foretold.errors import ConfigError, EdgeError, StoreError
    from foretold.generations import FileGenerations
    from foretold.stores.cloudflare.purges import SharedGenerations
    from foretold.stores.disk import DiskStore

    kv = kv_of(config)
    if kv is None:
        raise ConfigError(
            'no tier of the settings is "cloudflare_kv", which says where the edge\'s KV is: '
            "add one as docs/explanation/the-edge.md shows"
        )
    disk = next((tier for tier in config.tiers or DEFAULT_TIERS if tier.store == "disk"), None)
    folder = data_folder(config.data)
    if disk is None or disk.limit is None or not folder.answers.is_dir():
        raise EdgeError(f"{folder.path} holds no answers: warm takes those of a node's disk tier")
    secret = folder.secret()
    file = FileGenerations(folder.generations, secret)
    api = api_of(kv, config)
    store = DiskStore(folder.answers, disk.limit, now_ms=wall_ms)
    progress = Progress()
    try:
        if not dry_run:
            try:
                # An edge that was purged meanwhile must not be given what it was purged of.
                await api.names("foretold/1/generation/")
            except StoreError as e:
                raise EdgeError(f"nothing is pushed: {e}") from None
            if not await SharedGenerations(file, api, folder.kv_read).read():
                raise EdgeError("nothing is pushed: the edges' purges can't be read from KV")
        found = warming.choose(store.scan(), store.get_now, choice, secret=secret, table=file.now(), now_ms=wall_ms())
        if dry_run:
            click.echo(_told_dry(found, as_json=as_json))
            return 0
        if found.picks:
            progress.step(f"{_records(len(found.picks))}, {found.blob_bytes / 1e6:.1f} MB, to KV")
        pushed = await warming.push(
            found.picks, store.get_now, api, secret=secret, now_ms=wall_ms, tell=progress.progress
        )
        click.echo(_told(found, pushed, as_json=as_json))
        return FOUND_SOMETHING if pushed.refused else 0
    finally:
        await store.close()
        await api.close()


def _told_dry(found: Chosen, *, as_json: bool) -> str:
    if as_json:
        return json.dumps({"dry_run": True, **_counts(found)})
    said = f"would push {_records(len(found.picks))}, {found.blob_bytes} bytes; nothing was asked of KV"
    return "\n".join([said, *_left(found)])


def _told(found: Chosen, pushed: Pushed, *, as_json: bool) -> str:
    if as_json:
        told = {
            "pushed": pushed.records,
            "pushed_bytes": pushed.blob_bytes,
            "refused": pushed.refused,
            "gone": pushed.gone,
        }
        return json.dumps({"dry_run": False, **_counts(found), **told})
    lines = [f"pushed {_records(pushed.records)}, {pushed.blob_bytes} bytes: edges find them within a minute"]
    if pushed.refused:
        lines.append(f"KV refused {_records(pushed.refused)}, written within the same second elsewhere: run this again")
    if pushed.gone:
        lines.append(f"{_records(pushed.gone)} went away at the node meanwhile")
    return "\n".join([*lines, *_left(found)])


def _counts(found: Chosen) -> dict[str, Any]:
    return {
        "chosen": len(found.picks),
        "chosen_bytes": found.blob_bytes,
        "matched": found.matched,
        "dead": found.dead,
        "purged": found.purged,
        "unreadable": found.unreadable,
    }


def _left(found: Chosen) -> list[str]:
    lines = []
    beyond = found.matched - found.dead - found.purged - len(found.picks)
    if beyond:
        lines.append(f"{_records(beyond)} more would go with a higher --limit")
    if found.purged:
        lines.append(f"{_records(found.purged)} were purged, here or at the edge: they stay here")
    if found.dead:
        lines.append(f"{_records(found.dead)} are past their time: they stay here")
    if found.unreadable:
        lines.append(f"{_records(found.unreadable)} can't be read")
    return lines


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count} records"


def _route(config: Config, name: str | None) -> RouteSettings | None:
    from foretold.assemble import written_routes

    if name is None:
        return None
    routes = {route.name: route for route in written_routes(config)}
    if name not in routes:
        raise click.UsageError(f"there is no route {name!r}: known are {', '.join(routes) or 'none'}")
    return routes[name]


def _tags(
    secret: bytes, tags: tuple[str, ...], of_tenant: str, *, tenant: str | None, namespace: str | None
) -> tuple[str, ...]:
    from foretold.contract.generations import caller_tag, is_caller_tag

    found = []
    for tag in tags:
        if not is_caller_tag(tag):
            raise click.UsageError(f"--tag is {tag[:80]!r}: give 1 to 64 of a-z 0-9 _ . : -")
        found.append(caller_tag(_namespace(secret, of_tenant, option="--of"), tag))
    if tenant is not None:
        found.append(f"namespace:{_namespace(secret, tenant, option='--tenant')}")
    if namespace is not None:
        if not re.fullmatch(r"[0-9a-f]{64}", namespace):
            raise click.UsageError(f"--namespace is {namespace[:80]!r}: give its 64 hex digits")
        found.append(f"namespace:{namespace}")
    return tuple(found)


def _namespace(secret: bytes, tenant: str, *, option: str) -> str:
    from foretold.contract.namespace import tenant_namespace

    if not re.fullmatch(r"local:|(tenant|credential|shared):.+", tenant, re.S):
        raise click.UsageError(
            f"{option} is {tenant[:80]!r}: write tenant:NAME, credential:TEXT, shared:ROUTE or local:"
        )
    return tenant_namespace(secret, tenant)
