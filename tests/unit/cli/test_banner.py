"""What a node says when it is ready."""

from __future__ import annotations

from pathlib import Path

from foretold.cli.banner import banner
from foretold.config import load
from foretold.datafolder import DataFolder
from foretold.models.configured import own_manifest
from foretold.models.manifest import SMOLLM2

OWN = """
[models.rules]
engine = "python"
callable = "answers:reply"
revision = "3"
memory = "1 GiB"
context = 4096
"""


def test_each_model_is_told_by_what_it_is(tmp_path: Path) -> None:
    config = load(OWN)
    manifests = [SMOLLM2, own_manifest(config.models[0])]

    said = banner(config, manifests, "http://127.0.0.1:1", DataFolder(tmp_path), set_aside=None, took_s=1.0)

    assert "model   smollm2-135m   98.4 MB, Apache-2.0" in said
    assert "model   rules   a python engine of yours, revision 3" in said
