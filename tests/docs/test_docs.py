"""The pages say what is so: what they show is what the program prints, and what they name is there."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from foretold.cli import cli
from foretold.config import load
from foretold.config.settings import Config
from foretold.contract import aliases, controls
from foretold.contract.canonical import read
from foretold.contract.inputs import json_input
from foretold.deploy.settings import load_edge_text
from tests.docs import source_words
from tests.docs.pages import DOCS, Block, anchors, blocks, links, name_of, pages, prose
from tests.docs.reader import Reader
from tests.fakes.upstream import FakeUpstream
from tests.running import in_front_of, running

REFERENCE = DOCS / "reference"
FOLLOWED = [page for page in pages() if blocks(page, "sh", "console")]


@pytest.mark.parametrize("page", FOLLOWED, ids=name_of)
async def test_what_a_page_shows_is_what_a_reader_sees(page: Path, upstream: FakeUpstream, tmp_path: Path) -> None:
    reader = Reader(tmp_path, upstream)
    try:
        await reader.follow(page)
    finally:
        await reader.close()


@pytest.mark.parametrize("block", [b for page in pages() for b in blocks(page, "toml")], ids=str)
def test_every_settings_block_loads(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in re.findall(r'env *= *"(\w+)"', block.text):
        monkeypatch.setenv(name, "a secret")

    if block.text.startswith("# edge.toml\n"):
        load_edge_text(block.text, name="edge.toml")
    else:
        load(block.text)


def test_what_is_made_from_the_program_is_up_to_date() -> None:
    made = subprocess.run([sys.executable, DOCS / "generate.py", "--check"], capture_output=True, text=True)

    assert made.returncode == 0, made.stderr


def test_every_link_leads_somewhere() -> None:
    lost = []
    for page in pages():
        for line, target in links(page):
            path, _, anchor = target.partition("#")
            there = page.parent / path if path else page
            if not there.exists() or (anchor and there.suffix == ".md" and anchor not in anchors(there)):
                lost.append(f"{name_of(page)}:{line}: {target}")

    assert lost == []


def test_every_error_code_is_explained_and_no_other() -> None:
    codes = source_words.error_codes()

    assert _unexplained(codes, "http.md", "cli.md") == []
    assert [code for code in _first_column("http.md") if "_" in code and code.islower() and code not in codes] == []


def test_every_detail_is_explained_and_no_other() -> None:
    beginnings = source_words.beginnings()
    words = source_words.passing_details() | source_words.not_kept_reasons() | beginnings | {"cut"}
    told = [word.removeprefix("not-kept-").rstrip("…") for word in _first_column("cache-status.md") if " " not in word]

    assert len(words) > 25
    assert _unexplained(words, "cache-status.md") == []
    assert [word for word in told if word not in words and not word.startswith(tuple(beginnings))] == []


def test_every_setting_is_explained() -> None:
    assert _unexplained(set(_settings(Config)), "settings.md") == []


def test_every_option_and_environment_variable_is_explained() -> None:
    options = {option for words in _options(cli, click.Context(cli)) for option in words}
    text = (REFERENCE / "cli.md").read_text()

    assert [option for option in sorted(options) if option not in text] == []
    assert _unexplained(source_words.environment_variables(), "cli.md") == []


async def test_every_metric_and_count_is_explained(upstream: FakeUpstream, tmp_path: Path) -> None:
    async with running(in_front_of(upstream.url), tmp_path) as node:
        metrics = (await node.send("GET", "/-/metrics", headers=node.admin_headers)).body.decode()
        stats = await node.stats()
    names = set(re.findall(r"^# TYPE (\S+)", metrics, re.M)) | stats.keys() | stats["tiers"][0].keys()
    names |= stats["how"].keys() | stats["ended"].keys()

    assert _unexplained(names, "metrics.md") == []


def test_every_control_and_alias_is_explained() -> None:
    names = {*controls.OWN, *aliases._ALIASES}
    guide = (DOCS / "guides" / "controls.md").read_text().lower()

    assert [name for name in sorted(names) if f"`{name}" not in guide] == []


def test_pages_use_the_words_of_the_glossary() -> None:
    rows = re.findall(r"^\| \*\*(.+?)\*\* \| .* \| (.*?) ?\|$", (DOCS / "glossary.md").read_text(), re.M)
    instead = {word: right for right, wrong in rows for word in wrong.split(", ") if word}
    found = [
        f"{name_of(page)} says {word!r}: the word is {right!r}"
        for page in pages()
        if page.name != "glossary.md"
        for word, right in instead.items()
        if re.search(rf"\b{re.escape(word)}", prose(page), re.I)
    ]

    assert len(instead) > 10
    assert found == []


def test_every_row_that_compares_two_keys_is_true() -> None:
    rows = re.findall(
        r"^\| `(\{.*?\})` \| `(\{.*?\})` \| (same|other) \|", (DOCS / "explanation/keys.md").read_text(), re.M
    )
    wrong = [(one, other) for one, other, said in rows if (_key(one) == _key(other)) != (said == "same")]

    assert len(rows) > 8
    assert wrong == []


def _key(body: str) -> str:
    return json_input("chat", read(body.encode()))


def _unexplained(words: set[str], *names: str) -> list[str]:
    """Those that stand in none of these pages of the reference as code."""
    text = "\n".join((REFERENCE / name).read_text() for name in names)
    return [word for word in sorted(words) if not re.search(rf"`(not-kept-)?{re.escape(word)}", text)]


def _first_column(name: str) -> list[str]:
    """The code at the beginning of each row of the page's tables."""
    return re.findall(r"^\| `([^`]+)`", (REFERENCE / name).read_text(), re.M)


def _settings(kind: type) -> Iterator[str]:
    for member in dataclasses.fields(kind):
        inner = member.metadata.get("table") or member.metadata.get("tables")
        if inner is not None:
            yield from _settings(inner)
        elif member.metadata:
            yield member.name


def _options(command: click.Command, context: click.Context) -> Iterator[list[str]]:
    for parameter in command.params:
        yield [name for name in parameter.opts if name.startswith("-")]
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _options(inner, context)
