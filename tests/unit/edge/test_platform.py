"""What runs the Worker is found or installed whole, and what is missing is named."""

from __future__ import annotations

import json

import pytest

from foretold.edge import platform as subject
from foretold.errors import EdgeError


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A `node` and an `npm` of the test, and our files without what `make edge` sets up."""
    source = tmp_path / "worker"
    (source / "dev").mkdir(parents=True)
    (source / "dev" / "main.js").write_text("")
    (source / "package.json").write_text("{}")
    (source / "package-lock.json").write_text(json.dumps({"lockfileVersion": 3}))
    (tmp_path / "bin").mkdir()
    monkeypatch.setattr(subject, "_TREE", source)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("FORETOLD_CACHE", str(tmp_path / "cache"))
    return tmp_path


def program(world, name, script):
    path = world / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def set_up(world, said=None):
    return subject.platform(tell=([] if said is None else said).append)


def test_it_is_installed_once_and_told(world):
    program(world, "node", "echo v20.11.0")
    program(world, "npm", f'echo "$@" >> {world}/calls; mkdir -p node_modules/miniflare')
    said: list[str] = []

    first, second = set_up(world, said), set_up(world, said)

    assert first == second
    assert (first.packages / "node_modules" / "miniflare").is_dir()
    assert (world / "calls").read_text() == "ci --ignore-scripts --no-audit --no-fund --loglevel=error\n"
    assert len(said) == 1
    assert str(first.packages) in said[0]


def test_one_that_failed_leaves_nothing_and_is_tried_again(world):
    program(world, "node", "echo v20.11.0")
    program(world, "npm", 'echo "npm error code ENOTFOUND" >&2; exit 1')
    with pytest.raises(EdgeError, match=r"`npm ci` failed \(npm error code ENOTFOUND\)"):
        set_up(world)
    assert list((world / "cache" / "edge").iterdir()) == []

    program(world, "npm", "mkdir -p node_modules/miniflare")
    assert set_up(world).packages.is_dir()


def test_what_make_edge_set_up_is_used_as_it_is(world):
    program(world, "node", "echo v22.0.0")
    (world / "worker" / "node_modules" / "miniflare").mkdir(parents=True)

    assert set_up(world).packages == world / "worker"


@pytest.mark.parametrize("version", ["v18.19.0", "v20.10.0", "nonsense"])
def test_an_older_node_js_is_told_with_what_is_needed(world, version):
    program(world, "node", f"echo {version}")

    with pytest.raises(EdgeError, match=rf"node is {version}: install Node\.js 20\.11 or newer"):
        set_up(world)


def test_the_lock_names_no_host_and_pins_every_package():
    lock = json.loads((subject._TREE / "package-lock.json").read_text())
    packages = {name: told for name, told in lock["packages"].items() if name}

    assert packages
    assert all("integrity" in told and "resolved" not in told for told in packages.values())
