"""`foretold doctor`"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foretold import __version__
from foretold.cli.settings import config_option, json_option, settings_file
from foretold.cli.words import Progress, has_colour

if TYPE_CHECKING:
    from foretold.doctor.finding import Finding, Note

FOUND_SOMETHING = 8

# The word is the mark, so that it needs neither colour nor a character of its own.
_MARKS = {"ok": "ok", "skipped": "skip", "warning": "WARN", "fault": "FAULT"}
_COLOURS = {"ok": "32", "skipped": "2", "warning": "33", "fault": "31"}
_WIDTH = 16


@click.command("doctor", short_help="Check the whole set-up and say what to do.")
@config_option
@json_option
def command(config_file: Path | None, as_json: bool) -> int:
    """Looks at everything a node needs and says what is wrong and what to do; exit code 8 if there is a fault.

    Settings, data folder, secrets, kept answers, model and engine, port, upstreams and their keys, proxies and
    certificates, clock, limits of this machine.  Nothing is changed; a node may run meanwhile.  Only the upstreams of
    the settings and the node's own port are contacted.

    \b
    Examples:
      foretold doctor
      foretold doctor --config /etc/foretold.toml
      foretold doctor --json | jq '.[] | select(.verdict == "fault")'
    """
    from foretold.doctor.checks import examine
    from foretold.doctor.world import world

    _say_anything(sys.stdout)
    looked = examine(world(settings_file(config_file), tell=Progress()))
    if as_json:
        findings = list(looked)
        print(json.dumps([finding.told() for finding in findings], indent=2))
    else:
        findings = list(_as_told(looked))
        print(f"\n{_counted(findings)}")
    return FOUND_SOMETHING if any(finding.verdict.name == "fault" for finding in findings) else 0


def _as_told(looked: Iterator[Finding]) -> Iterator[Finding]:
    """The findings, each printed as it comes."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    system = f"{platform.system()} {platform.machine()}"
    print(f"Foretold {__version__}, Python {platform.python_version()}, {system}, {cores} cores\n")
    for finding in looked:
        for line in lines(finding, colour=has_colour(sys.stdout)):
            print(line)
        sys.stdout.flush()
        yield finding


def lines(finding: Finding, *, colour: bool) -> Iterator[str]:
    """The worst note beside the mark; below it the others, and what to do."""
    worst = next((note for note in finding.notes if note.verdict == finding.verdict), None)
    name = finding.verdict.name
    mark = f"{_MARKS[name]:<5}"
    if colour:
        mark = f"\x1b[{_COLOURS[name]}m{mark}\x1b[0m"
    yield f"  {mark} {finding.check:<{_WIDTH}} {worst.found if worst is not None else ''}".rstrip()
    for note in finding.notes if worst is None else (worst, *(note for note in finding.notes if note is not worst)):
        yield from _details(note, is_said=note is worst)


def _details(note: Note, *, is_said: bool) -> Iterator[str]:
    gap = " " * (9 + _WIDTH)
    if not is_said:
        also = f"{_MARKS[note.verdict.name]}: " if note.todo else ""
        yield f"{gap}{also}{note.found}"
    for todo in note.todo:
        yield f"{gap}do: {todo}"


def _counted(findings: list[Finding]) -> str:
    counts = Counter(finding.verdict.name for finding in findings)
    told = [f"{counts['ok']} ok"]
    for name, plural in (("warning", "warnings"), ("fault", "faults")):
        told.append(f"{counts[name]} {name if counts[name] == 1 else plural}")
    if counts["skipped"]:
        told.append(f"{counts['skipped']} skipped")
    return f"{', '.join(told)}; exit {FOUND_SOMETHING if counts['fault'] else 0}"


def _say_anything(out: object) -> None:
    """A name that the terminal has no letters for is told in escapes, instead of ending the report."""
    reconfigure = getattr(out, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
