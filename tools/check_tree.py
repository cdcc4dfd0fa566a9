"""What no linter checks: files stay short, and nothing names where packages come from or a path of one machine."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

LONGEST_LINES = 400
SOURCES = re.compile(r"^(src/.*\.py|worker/src/.*\.js)$")
NEVER = {
    "names a package registry": re.compile(
        rb"--(extra-)?index-url|--find-links|\"resolved\": *\"http|^ *registry *= *\"?http", re.M
    ),
    "is unfinished": re.compile(rb"\b(TO" + rb"DO|FIX" + rb"ME|XX" + rb"X)\b"),
}
MAY_SAY_SO = {"tools/check_tree.py"}


def complaints(path: str, content: bytes) -> list[str]:
    found = [f"{path} {what}" for what, pattern in NEVER.items() if path not in MAY_SAY_SO and pattern.search(content)]
    lines = content.count(b"\n")
    if SOURCES.match(path) and lines > LONGEST_LINES:
        found.append(f"{path} has {lines} lines: split it, {LONGEST_LINES} are the most")
    return found


def main() -> int:
    tracked = subprocess.run(["git", "ls-files", "-z"], check=True, capture_output=True).stdout.decode().split("\0")
    found = [c for path in tracked if path and Path(path).is_file() for c in complaints(path, Path(path).read_bytes())]
    for complaint in found:
        print(complaint, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
