"""Start-up is quick because what isn't needed isn't imported."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
from foretold.cli import main
try:
    main()
finally:
    print(*(name for name in sys.modules if name.partition(".")[0] in {"foretold", "asyncio", "aiohttp"}), file=sys.stderr)
"""
AT_TAB = {"_FORETOLD_COMPLETE": "bash_complete", "COMP_CWORD": "1", "COMP_WORDS": "foretold d"}


@pytest.mark.parametrize(("words", "more"), [(["--help"], {}), ([], AT_TAB)], ids=["help", "completion of a command"])
def test_no_command_and_no_part_of_the_node_is_imported_for(words, more):
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], env={**os.environ, **more}, capture_output=True, text=True
    )

    assert "doctor" in ended.stdout
    assert set(ended.stderr.split()) == {"foretold", "foretold.cli", "foretold.errors"}
