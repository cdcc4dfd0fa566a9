"""Where a command's settings come from: flag, then FORETOLD_CONFIG, then ./foretold.toml, then the defaults."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from foretold.config import Config, load
from foretold.config.reading import read_text as text_of

config_option = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    help="The settings file; else FORETOLD_CONFIG, else ./foretold.toml.",
)

url_option = click.option("--url", help="The node; else FORETOLD_URL, else http://127.0.0.1:3673.")


def settings_file(config_file: Path | None) -> Path | None:
    """The file that counts; None for the defaults."""
    named = config_file or (Path(os.environ["FORETOLD_CONFIG"]) if os.environ.get("FORETOLD_CONFIG") else None)
    if named is None and Path("foretold.toml").is_file():
        return Path("foretold.toml")
    return named


def read_text(config_file: Path | None) -> tuple[str, Path | None]:
    """The text of the settings, and its file if there is one.  Raises ConfigError."""
    named = settings_file(config_file)
    return ("", None) if named is None else (text_of(named), named)


def read_config(config_file: Path | None) -> Config:
    """Raises ConfigError."""
    text, file = read_text(config_file)
    return load(text, file=file)


def json_option(function: Any) -> Any:
    return click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")(function)
