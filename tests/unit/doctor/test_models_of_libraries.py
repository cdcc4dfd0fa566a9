"""Models of a library, as `foretold doctor` sees them: here, damaged, not here yet, vouched for by nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from foretold.doctor.limits import memory_needed
from foretold.doctor.models import model_files
from foretold.models.library.access import Access
from foretold.models.library.address import address_of
from foretold.models.library.objects import Store
from foretold.models.library.trust import new_key
from tests.library.gguf_file import model_file
from tests.library.worlds import pulled, pushed
from tests.worlds import text, verdict, world_of


@pytest.fixture
async def settings(tmp_path) -> str:
    """Of a model that is here."""
    (tmp_path / "library").mkdir()
    library = (tmp_path / "library").as_uri()
    there = Store.of(address_of(library), Access())
    revision = (await pushed(there, model_file(tmp_path / "tiny.gguf", 10_000))).revision
    await pulled(there, tmp_path / "models", revision)
    return f'[models.mine]\nsource = "{library}"\nmodel = "tiny"\nrevision = "{revision}"\n'


def blob(folder: Path) -> Path:
    (found,) = (path for path in (folder / "models").glob("sha256-*") if not path.suffix)
    return found


def test_a_model_that_is_here_and_whole_is_well(tmp_path, settings):
    assert verdict(list(model_files(world_of(tmp_path, settings)))) == "ok"


def test_a_model_that_is_damaged_is_a_fault_with_the_command_that_brings_it_anew(tmp_path, settings):
    blob(tmp_path).chmod(0o600)
    blob(tmp_path).write_bytes(b"damaged")

    notes = list(model_files(world_of(tmp_path, settings)))

    assert verdict(notes) == "fault"
    assert "foretold models pull mine" in text(notes)


def test_a_model_that_is_not_here_yet_is_a_warning_and_its_library_is_not_asked(tmp_path, settings):
    notes = list(model_files(world_of(tmp_path, settings, models=tmp_path / "empty")))

    assert verdict(notes) == "warning"
    assert "foretold models pull mine" in text(notes)


def test_a_model_that_nobody_vouches_for_any_more_is_a_fault(tmp_path, settings):
    world = world_of(tmp_path, settings)
    (manifest,) = (tmp_path / "models" / "manifests").glob("*.json")
    manifest.write_bytes(manifest.read_bytes().replace(b"apache-2.0", b"apache-2.1"))

    assert verdict(list(model_files(world))) == "fault"


def test_its_memory_is_counted_as_its_manifest_tells_it(tmp_path, settings):
    world = world_of(tmp_path, settings)
    assert world.config is not None

    needed, _ = memory_needed(world.config, world.models)
    without, _ = memory_needed(world.config, tmp_path / "nowhere")

    assert needed - without > blob(tmp_path).stat().st_size


def test_a_key_of_nobody_changes_nothing(tmp_path, settings):
    trusted = f'[library]\ntrusted = ["{new_key(tmp_path / "key")}"]\n'

    # The pinned revision counts, whoever else is trusted.
    assert verdict(list(model_files(world_of(tmp_path, settings + trusted)))) == "ok"
