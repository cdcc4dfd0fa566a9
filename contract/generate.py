"""Writes contract/vectors/ and the table at the end of contract/README.md from the tables in contract/cases/.

python contract/generate.py           writes them
python contract/generate.py --check   exits 1 if what is on disk differs
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
from pathlib import Path
from typing import Any

import cases

HERE = Path(__file__).parent
VECTORS = HERE / "vectors"
README = HERE / "README.md"
TABLE_HEADING = "## Where each rule is shown\n"
RULES = (
    [f"K{n}" for n in range(1, 13)]
    + ["N1", "N2", "R1", "R2", "R3", "R4", "R5", "G1", "F1", "F2", "C1", "C2", "C3"]
    + ["P1", "P2", "P3", "P4", "P5", "L1", "L2", "S1", "S2", "S3", "U1"]
)


def vectors_by_file() -> dict[str, list[dict[str, Any]]]:
    """Every vector under the stem of its file.  Each module of `cases` has FILES: stem → vectors."""
    found: dict[str, list[dict[str, Any]]] = {}
    for module in sorted(m.name for m in pkgutil.iter_modules(cases.__path__)):
        for stem, vectors in getattr(importlib.import_module(f"cases.{module}"), "FILES", {}).items():
            found.setdefault(stem, []).extend(vectors)
    names = [vector["name"] for vectors in found.values() for vector in vectors]
    twice = sorted({name for name in names if names.count(name) > 1})
    strange = sorted({vector["rule"] for vectors in found.values() for vector in vectors} - set(RULES))
    if twice or strange:
        raise SystemExit(f"names given twice: {twice}; rules that are none: {strange}")
    return found


def file_text(vectors: list[dict[str, Any]]) -> str:
    """One vector a line, so that a change shows as one."""
    return "[\n" + ",\n".join(json.dumps(vector, ensure_ascii=False) for vector in vectors) + "\n]\n"


def rules_table(found: dict[str, list[dict[str, Any]]]) -> str:
    lines = ["| rule | vector files |", "|---|---|"]
    for rule in RULES:
        stems = sorted(stem for stem, vectors in found.items() if any(v["rule"] == rule for v in vectors))
        lines.append(
            f"| {rule} | {' '.join(f'`{stem}.json`' for stem in stems) or 'none: no pure function decides it'} |"
        )
    return "\n".join(lines) + "\n"


def wanted_files() -> dict[Path, str]:
    found = vectors_by_file()
    rules, heading, _ = README.read_text(encoding="utf-8").partition(TABLE_HEADING)
    if not heading:
        raise SystemExit(f"{README.name} has no heading {TABLE_HEADING.strip()!r}")
    files = {VECTORS / f"{stem}.json": file_text(vectors) for stem, vectors in sorted(found.items())}
    return {**files, README: f"{rules}{heading}\n{rules_table(found)}"}


def main(arguments: list[str]) -> int:
    wanted = wanted_files()
    stray = sorted(path for path in VECTORS.glob("*") if path not in wanted)
    if arguments == ["--check"]:
        differing = [path for path, text in wanted.items() if not path.exists() or path.read_text("utf-8") != text]
        for path in [*differing, *stray]:
            print(f"{path.name} is not what contract/cases says: run `python contract/generate.py`")
        return 1 if differing or stray else 0
    VECTORS.mkdir(exist_ok=True)
    for path in stray:
        path.unlink()
    for path, text in wanted.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
