"""What each program of a host process does first, and how it tells the node that it is ready."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, BinaryIO


def drop_inherited_files() -> None:
    """Whatever the node had open stays out of native code's reach: event loops differ in what they let through.

    uvloop passed on the store of kept answers, open for writing.
    """
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))


def keep_stdout_to_ourselves() -> BinaryIO:
    """Our line to the node; whatever else is printed in this process goes to stderr."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers


def tell(answers: BinaryIO, line: dict[str, Any]) -> None:
    answers.write(json.dumps(line).encode() + b"\n")
    answers.flush()
