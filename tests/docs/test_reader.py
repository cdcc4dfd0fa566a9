"""The reader of pages notices what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import pages
from tests.docs.matching import matches
from tests.docs.reader import Reader, Typed, Wrong, typed_in
from tests.fakes.upstream import FakeUpstream


@pytest.mark.parametrize(
    ("shown", "real"),
    [
        ("one\ntwo", "one\ntwo\n"),
        ("\n  one   two\n\n", "one\ttwo\r\n"),
        ("key=…; done", 'key="7c01"; done'),
        ("…", ""),
        ("…\nlast", "first\n\nsecond\nlast"),
        ("first\n…\nlast", "first\nlast"),
        ("a…b…c", "a b c b c"),
    ],
)
def test_what_varies_may_vary(shown: str, real: str) -> None:
    assert matches(shown, real)


@pytest.mark.parametrize(
    ("shown", "real"),
    [
        ("one\ntwo", "one"),
        ("one", "one\ntwo"),
        ("key=…; done", "key=7c01; not done"),
        ("key=…; done", "key=7c01\n; done"),
        ("first\n…\nlast", "first\nlast\nmore"),
        ("ab…ba", "aba"),
        ("", "anything"),
    ],
)
def test_what_differs_is_noticed(shown: str, real: str) -> None:
    assert not matches(shown, real)


def test_commands_are_read_with_their_outputs() -> None:
    page = Path("page.md")
    console = pages.Block(page, 1, "console", "$ echo a \\\n  b\nshown\n\nmore\n$ true\n")
    script = pages.Block(page, 1, "sh", "# a remark\necho a\n\ntrue\n")

    assert typed_in(console) == [Typed(0, "echo a \\\n  b", "shown\n\nmore\n"), Typed(5, "true", "")]
    assert typed_in(script) == [Typed(1, "echo a", ""), Typed(3, "true", "")]


@pytest.mark.parametrize(
    "text",
    [
        "```console\n$ foretold version\nforetold 99\n```\n",
        "```sh\nforetold cache purge\n```\n",
        "```console\n$ curl -s http://127.0.0.1:3673/-/health\n{}\n```\n",
        '```toml\n# foretold.toml\n[server]\nprot = 1\n```\n```sh\nforetold ask m "hello"\n```\n',
        "```console\n$ foretold serve --host 0.0.0.0\n…\nReady in … s. Ctrl-C stops it; kept answers stay.\n```\n",
    ],
    ids=[
        "another output",
        "a failing command",
        "another answer",
        "settings that don't load",
        "a node that won't start",
    ],
)
async def test_a_wrong_page_is_noticed(
    text: str, upstream: FakeUpstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(text)
    reader = Reader(tmp_path, upstream)

    try:
        with pytest.raises(Wrong):
            await reader.follow(page)
    finally:
        await reader.close()


def test_headings_become_anchors(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One `two`, three!\n```\n# not a heading\n```\n## [[routes]]\n## Again\n## Again\n")

    assert pages.anchors(page) == {"one-two-three", "routes", "again", "again-1"}


def test_code_is_no_prose_and_has_no_links(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("one `[two](three)`\n```\n[four](five)\n```\n[six](seven.md#eight) [nine](https://ten.example)\n")

    assert list(pages.links(page)) == [(5, "seven.md#eight")]
    assert "four" not in pages.prose(page)
    assert "seven" not in pages.prose(page)
