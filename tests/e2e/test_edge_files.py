"""The Worker and its page come with the program."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.e2e.program import run

ACCOUNT_ID = "023e105f4ecef8ad9ca31a8372d0c353"
NAMESPACE_ID = "0f2ac74b498b48028cb68387c421e279"


async def test_without_an_entry_the_worker_and_the_page_of_the_program_itself_are_deployed(tmp_path: Path) -> None:
    (tmp_path / "edge.toml").write_text(f'account_id = "{ACCOUNT_ID}"\nworker.workers_dev = true\n')

    exported = await run("edge", "export", "wrangler", "--kv-namespace-id", NAMESPACE_ID, home=tmp_path)

    assert exported.code == 0, exported.err
    config = json.loads(re.sub(r"^//.*\n", "", exported.out, flags=re.M))
    folder = tmp_path / config["base_dir"]
    modules = [name for rule in config["rules"] for name in rule["globs"]]
    assert config["main"].endswith("prediction_worker.js")
    assert len(modules) > 20
    assert [name for name in modules if not (folder / name).is_file()] == []
    assert (tmp_path / config["assets"]["directory"] / "index.html").is_file()
