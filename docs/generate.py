"""Writes the parts of docs/reference that are made from the program itself, between their markers.

python docs/generate.py [--check]

With --check nothing is written: it says which pages are not up to date, and ends with 1 if there are any.
"""

from __future__ import annotations

import dataclasses
import re
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner

from foretold.assemble import assemble
from foretold.cli import cli
from foretold.config import load
from foretold.config.settings import Config
from foretold.datafolder import DataFolder
from foretold.deploy.settings import EdgeSettings
from foretold.models.host import Host
from foretold.models.managing import counted
from foretold.models.manifest import SMOLLM2
from foretold.models.place import Member, Place
from foretold.models.tally import Tally
from foretold.observe.metrics import metrics
from foretold.observe.stats import stats
from foretold.outcome import Outcome

REFERENCE = Path(__file__).parent / "reference"
COLUMNS = 88

_PART = re.compile(r"(<!-- made by docs/generate\.py: (\w+) -->\n).*?(<!-- end of \2 -->)", re.S)


def main() -> int:
    only_check = sys.argv[1:] == ["--check"]
    stale = []
    for page in sorted(REFERENCE.glob("*.md")):
        before = page.read_text()
        after = _PART.sub(lambda part: f"{part[1]}\n{PARTS[part[2]]()}\n{part[3]}", before)
        if before == after:
            continue
        stale.append(page.name)
        if not only_check:
            page.write_text(after)
    if only_check:
        for name in stale:
            print(f"docs/reference/{name} is not up to date: run `python docs/generate.py`", file=sys.stderr)
    return 1 if stale and only_check else 0


def settings() -> str:
    return "\n".join(_section(Config, "At the top of the file", "")).rstrip() + "\n"


def edge_settings() -> str:
    return "\n".join(_section(EdgeSettings, "At the top of the file", "")).rstrip() + "\n"


def commands() -> str:
    """Every command's own help text."""
    return "\n".join(f"## {' '.join(words)}\n\n```text\n{_help(words)}```\n" for words in _commands())


def counts() -> str:
    """Every metric with its kind, its labels and its sentence, as /-/metrics of a node just started tells them."""
    rows = ["| metric | kind | labels | what it counts |", "|---|---|---|---|"]
    text = _metrics_text()
    for name, says in re.findall(r"^# HELP (\S+) (.*)$", text, re.M):
        kind = re.search(rf"^# TYPE {name} (\w+)$", text, re.M)
        labels = sorted({label for line in _samples(text, name) for label in re.findall(r'[{,](\w+)="', line)})
        shown = ", ".join(f"`{label}`" for label in labels if label != "le")
        rows.append(f"| `{name}` | {kind[1] if kind else ''} | {shown} | {says} |")
    return "\n".join(rows) + "\n"


PARTS: dict[str, Callable[[], str]] = {
    "settings": settings,
    "edge_settings": edge_settings,
    "commands": commands,
    "counts": counts,
}


def _section(kind: type, title: str, says: str) -> Iterator[str]:
    members = [f for f in dataclasses.fields(kind) if f.metadata]
    own = [f for f in members if "read" in f.metadata]
    yield f"## {title}\n"
    if says:
        yield f"{says[0].upper()}{says[1:]}.\n"
    yield "| setting | default | for example | what it says |\n|---|---|---|---|"
    for member in own:
        default, example = _values(member)
        yield f"| `{member.name}` | {default} | {example} | {member.metadata['says']} |"
    yield ""
    for member in members:
        inner = member.metadata
        if "table" in inner:
            yield from _section(inner["table"], f"[{member.name}]", inner["says"])
        elif "tables" in inner:
            header = f"[{member.name}.NAME]" if inner["named"] else f"[[{member.name}]]"
            yield from _section(inner["tables"], header, inner["says"])


def _values(member: dataclasses.Field[Any]) -> tuple[str, str]:
    """Its default, and an example where the default shows nothing."""
    shown = f"`{member.metadata['shown']}`"
    if member.default is dataclasses.MISSING:
        return "must be given", shown
    return (shown, "") if _is_shown(member) else ("–", shown)


def _is_shown(member: dataclasses.Field[Any]) -> bool:
    """Whether the value in the documented example is the default itself."""
    if member.default in ("", None, ()):
        return False
    read: Any = member.metadata["read"](tomllib.loads(f"value = {member.metadata['shown']}")["value"])
    if read != member.default:
        raise SystemExit(f"{member.name}: the example shows {read!r}, the default is {member.default!r}")
    return True


def _commands() -> Iterator[list[str]]:
    yield ["foretold"]
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        yield ["foretold", name]
        yield from _inner_commands(["foretold", name], command, context)


def _inner_commands(words: list[str], command: click.Command | None, context: click.Context) -> Iterator[list[str]]:
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            yield [*words, name]
            yield from _inner_commands([*words, name], command.get_command(context, name), context)


def _help(words: list[str]) -> str:
    told = CliRunner().invoke(cli, [*words[1:], "--help"], prog_name=words[0], terminal_width=COLUMNS)
    if told.exit_code != 0:
        raise SystemExit(f"{' '.join(words)} --help ended with {told.exit_code}")
    return told.output


def _metrics_text() -> str:
    """Of a node that accounted one query and runs one model, so that every label has a value."""
    config = load('[upstreams.any]\nurl = "http://127.0.0.1:9"\n[[tiers]]\nstore = "memory"\nlimit = "1 MiB"\n')
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        node = assemble(config, DataFolder(path), weights={}, run_folder=path).node
        node.account(Outcome(began_ms=0))
        place = Place("a", Member(SMOLLM2, Host(SMOLLM2, path, path), queue=1), Tally())
        row = place.told(now_s=0, waiting=0) | {"counts": dataclasses.asdict(place.tally), "others": []}
        return metrics(stats(node) | {"models": counted([row])}).decode()


def _samples(text: str, name: str) -> list[str]:
    return [line for line in text.splitlines() if re.match(rf"{name}(_bucket|_sum|_count)?\{{", line)]


if __name__ == "__main__":
    sys.exit(main())
