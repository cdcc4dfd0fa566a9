"""Stand-ins for what the node talks to."""

from __future__ import annotations

from pathlib import Path


def engine_program_path() -> str:
    """The file that a host runs in place of an engine."""
    return str(Path(__file__).with_name("engine_program.py"))


def answering_program_path() -> str:
    """The same, for one that answers."""
    return str(Path(__file__).with_name("answering_program.py"))
