"""How the command line talks: what was asked for on stdout, everything else on stderr."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from typing import TextIO

from foretold.errors import ForetoldError, Refused, Told

JSON_ERRORS = "FORETOLD_OUTPUT"
_BAR = 28
_QUIET_S = 10.0


def has_colour(out: TextIO) -> bool:
    if os.environ.get("FORCE_COLOR"):
        return True
    return out.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")


def bold(text: str, out: TextIO = sys.stderr) -> str:
    return f"\x1b[1m{text}\x1b[0m" if has_colour(out) else text


def exit_code_of(error: ForetoldError) -> int:
    return error.exit_here if isinstance(error, Told) else error.exit_code


def tell_error(error: ForetoldError) -> None:
    code = error.code_here if isinstance(error, (Refused, Told)) else error.code
    tell(str(error), code=code, exit_code=exit_code_of(error))


def tell(message: str, *, code: str, exit_code: int) -> None:
    """An error on stderr: two lines, or one JSON object where FORETOLD_OUTPUT=json."""
    if os.environ.get(JSON_ERRORS) == "json":
        import json

        print(json.dumps({"error": {"code": code, "message": message}}), file=sys.stderr)
        return
    label = "\x1b[31merror:\x1b[0m" if has_colour(sys.stderr) else "error:"
    print(f"{label} {message}\n  code  {code} · exit {exit_code}", file=sys.stderr)


class Progress:
    """Long work on stderr: one line that grows on a terminal, else a plain line now and then.

    The share never goes back.
    """

    def __init__(self, out: TextIO | None = None):
        self._out = out or sys.stderr
        self._live = self._out.isatty()
        self._name = ""
        self._share = 0.0
        self._began_s = time.monotonic()
        self._last_s = -_QUIET_S
        self._first_bytes: int | None = None

    def step(self, text: str) -> None:
        self._end_line()
        self._name, self._share, self._began_s, self._last_s = text, 0.0, time.monotonic(), -_QUIET_S
        self._first_bytes = None
        print(f"  {text} …", file=self._out, flush=True)

    def progress(self, done_bytes: int, total_bytes: int) -> None:
        if total_bytes <= 0:
            return
        if self._first_bytes is None:
            self._first_bytes = done_bytes  # what was here before we began didn't come now
        self._share = max(self._share, min(1.0, done_bytes / total_bytes))
        now_s = time.monotonic()
        is_last = self._share >= 1.0
        if not is_last and now_s - self._last_s < (0.1 if self._live else _QUIET_S):
            return
        self._last_s = now_s
        rate = max(0, done_bytes - self._first_bytes) / max(now_s - self._began_s, 0.001)
        line = f"{self._share:4.0%}  {done_bytes / 1e6:.1f} of {total_bytes / 1e6:.1f} MB  {rate / 1e6:.1f} MB/s"
        if self._live:
            full = round(self._share * _BAR)
            print(
                f"\r    {'━' * full}{' ' * (_BAR - full)} {line}  ",
                end="\n" if is_last else "",
                file=self._out,
                flush=True,
            )
        else:
            print(f"    {line}", file=self._out, flush=True)

    def _end_line(self) -> None:
        if self._live and 0 < self._share < 1.0:
            print(file=self._out)


def told_reloaded(changed: Iterable[str], waiting: Iterable[str]) -> str:
    """What reading the settings anew has changed, in one line."""
    now, later = ", ".join(changed), ", ".join(waiting)
    if not now and not later:
        return "The settings in force are those that are written: nothing changed."
    said = f"Settings in force from now on: {now}." if now else "Nothing that can change at once did."
    return said + (f" These wait for a restart: {later}." if later else "")
