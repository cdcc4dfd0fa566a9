"""`make check` takes the types of two generated libraries as unknown, for speed; here our calls are held against them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LEFT_OUT = 'follow_imports = "skip"'


def _mypy(settings: Path, source: Path, folder: Path) -> str:
    words = ("--config-file", settings, "--cache-dir", folder / "cache", "-p", "foretold.deploy")
    ended = subprocess.run(
        [sys.executable, "-m", "mypy", *words], cwd=source, capture_output=True, text=True, timeout=900
    )
    return ended.stdout + ended.stderr


@pytest.mark.slow
def test_our_calls_of_generated_libraries_are_right_by_their_own_types(tmp_path):
    settings = tmp_path / "pyproject.toml"
    text = (ROOT / "pyproject.toml").read_text()
    assert text.count(LEFT_OUT) == 1
    settings.write_text(text.replace(LEFT_OUT, 'follow_imports = "normal"'))

    said = _mypy(settings, ROOT, tmp_path)

    assert said.startswith("Success:"), said
