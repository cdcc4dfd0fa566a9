"""Every fault in cases.toml names claims that exist."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def claims() -> list[tuple[str, str]]:
    tables = tomllib.loads((ROOT / "tests" / "cases.toml").read_text())
    return [(fault, claim) for table in tables.values() for fault, named in table.items() for claim in named]


def exists(claim: str) -> bool:
    if "::" in claim:
        path, _, function = claim.partition("::")
        file = ROOT / path
        if path.endswith(".js"):
            return file.is_file() and f'test("{function}", ' in file.read_text()
        return file.is_file() and re.search(rf"^(async )?def {function}\(", file.read_text(), re.MULTILINE) is not None
    topic, _, name = claim.partition(": ")
    file = ROOT / "contract" / "vectors" / f"{topic}.json"
    return file.is_file() and name in {vector["name"] for vector in json.loads(file.read_text())}


def test_every_fault_names_a_vector_or_a_test_that_exists():
    missing = [f"{fault}: {claim}" for fault, claim in claims() if not exists(claim)]

    assert missing == []


def test_there_are_faults_to_check():
    assert len(claims()) > 80
