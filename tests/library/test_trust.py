"""Who vouches for a manifest.  The store is a folder here: it is written to by anybody."""

from __future__ import annotations

import dataclasses
import json
import stat
from pathlib import Path

import pytest

from foretold.contract.canonical import canonical
from foretold.errors import ConfigError, LibraryError, Untrusted
from foretold.models.library.access import Access
from foretold.models.library.address import address_of
from foretold.models.library.bring import Brought, already_here, bring
from foretold.models.library.describing import Said
from foretold.models.library.document import manifest_of, revision_of, written
from foretold.models.library.layout import manifest_key, name_key, signature_key
from foretold.models.library.objects import Store
from foretold.models.library.push import Pushed, push
from foretold.models.library.shelf import Using
from foretold.models.library.trust import Trust, new_key, trusted_keys
from tests.library.gguf_file import model_file
from tests.library.worlds import Told, shelf


class Library:
    """In a folder, with a model, perhaps signed."""

    def __init__(self, folder: Path):
        self.root = folder / "library"
        self.root.mkdir()
        self.store = Store.of(address_of(self.root.as_uri()), Access())
        self._file = model_file(folder / "tiny.gguf", 10_000)
        self.models = folder / "models"

    async def push(self, *, name: str = "tiny", key: Path | None = None, **said: object) -> Pushed:
        return await push(
            self.store,
            {"tiny.gguf": self._file},
            Said(name=name, **said),
            signing_key=key,
            tell=Told(),  # type: ignore[arg-type]
        )

    async def pull(self, trust: Trust, *, name: str = "tiny") -> Brought:
        using = Using()
        try:
            return await bring(shelf(self.models), self.store, name, trust=trust, using=using, tell=Told())
        finally:
            using.close()

    def copy(self, here: str, there: str) -> None:
        (self.root / there).parent.mkdir(parents=True, exist_ok=True)
        (self.root / there).write_bytes((self.root / here).read_bytes())


@pytest.fixture
def library(tmp_path) -> Library:
    return Library(tmp_path)


@pytest.fixture
def key(tmp_path) -> tuple[Path, str]:
    return tmp_path / "team.key", new_key(tmp_path / "team.key")


async def test_a_pinned_manifest_needs_no_signature(library):
    pushed = await library.push()

    assert (await library.pull(Trust(pushed.revision))).vouched == "its digest is pinned"


async def test_a_manifest_signed_by_a_trusted_key_is_accepted_and_says_by_whom(library, key):
    file, public = key
    await library.push(key=file)

    assert (await library.pull(Trust(keys=(public,)))).vouched == f"signed by {public}"


async def test_an_unsigned_manifest_is_refused_and_nothing_of_it_is_fetched(library, key):
    await library.push()

    with pytest.raises(Untrusted, match="is not signed by a key that is trusted here"):
        await library.pull(Trust(keys=(key[1],)))

    assert list(library.models.glob("sha256-*")) == []


async def test_a_manifest_signed_by_a_stranger_is_refused(library, key, tmp_path):
    new_key(tmp_path / "stranger.key")
    await library.push(key=tmp_path / "stranger.key")

    with pytest.raises(Untrusted, match="is not signed by a key that is trusted here"):
        await library.pull(Trust(keys=(key[1],)))


async def test_a_stranger_s_signature_under_a_trusted_key_s_name_is_refused(library, key, tmp_path):
    stranger = new_key(tmp_path / "stranger.key")
    pushed = await library.push(key=tmp_path / "stranger.key")
    forged = json.loads((library.root / signature_key("tiny", pushed.revision, stranger)).read_text())
    (library.root / signature_key("tiny", pushed.revision, key[1])).write_text(json.dumps(forged | {"key": key[1]}))

    with pytest.raises(Untrusted, match="signatures that don't verify"):
        await library.pull(Trust(keys=(key[1],)))


async def test_a_signature_of_another_revision_does_not_count(library, key):
    signed, other = await library.push(key=key[0]), await library.push(licence="MIT")
    library.copy(signature_key("tiny", signed.revision, key[1]), signature_key("tiny", other.revision, key[1]))

    with pytest.raises(Untrusted, match="signatures that don't verify"):
        await library.pull(Trust(keys=(key[1],)))


async def test_a_manifest_that_was_changed_in_the_store_is_refused(library):
    pushed = await library.push()
    path = library.root / manifest_key("tiny", pushed.revision)
    path.write_bytes(path.read_bytes().replace(b"apache-2.0", b"apache-2.1"))

    with pytest.raises(LibraryError, match="not the one it is named by: it was changed or damaged"):
        await library.pull(Trust(pushed.revision))


async def test_a_foreign_manifest_is_refused_where_another_is_pinned(library):
    pinned, _ = await library.push(), await library.push(licence="MIT")

    assert (await library.pull(Trust(pinned.revision))).revision == pinned.revision


async def test_another_model_s_signed_manifest_does_not_stand_for_this_one(library, key):
    other = await library.push(name="other", key=key[0])
    library.copy(name_key("other"), name_key("tiny"))
    library.copy(manifest_key("other", other.revision), manifest_key("tiny", other.revision))
    library.copy(signature_key("other", other.revision, key[1]), signature_key("tiny", other.revision, key[1]))

    with pytest.raises(Untrusted, match="is the manifest of another model, 'other'"):
        await library.pull(Trust(keys=(key[1],)))


async def test_what_was_accepted_once_is_not_run_when_its_key_is_no_longer_trusted(library, key, tmp_path):
    await library.push(key=key[0])
    await library.pull(Trust(keys=(key[1],)))
    other = new_key(tmp_path / "other.key")

    with pytest.raises(Untrusted):
        already_here(shelf(library.models), str(library.store), "tiny", trust=Trust(keys=(other,)), using=Using())


async def test_a_start_with_what_is_here_needs_no_library(library):
    pushed = await library.push()
    await library.pull(Trust(pushed.revision))
    address = str(library.store)
    library.root.rename(library.root.with_name("gone"))

    here = already_here(shelf(library.models), address, "tiny", trust=Trust(pushed.revision), using=Using())

    assert here is not None
    assert here.weights.is_file()


def test_a_private_key_is_its_owner_s_alone_and_never_overwritten(tmp_path):
    new_key(tmp_path / "team.key")

    assert stat.S_IMODE((tmp_path / "team.key").stat().st_mode) == 0o600
    with pytest.raises(ConfigError, match="File exists"):
        new_key(tmp_path / "team.key")


@pytest.mark.parametrize("given", ["ed25519:", "ed25519:AAAA", "rsa:AAAA", "ed25519:not base64"])
def test_what_is_no_public_key_is_refused(given):
    with pytest.raises(ConfigError, match="--trust"):
        trusted_keys([given])


# --- the manifest's own form


async def text_of(library: Library) -> bytes:
    pushed = await library.push()
    return (library.root / manifest_key("tiny", pushed.revision)).read_bytes()


async def test_a_manifest_is_named_by_its_own_digest_and_reads_back_as_it_was(library):
    pushed = await library.push()
    text = (library.root / manifest_key("tiny", pushed.revision)).read_bytes()

    assert revision_of(text) == pushed.revision
    assert manifest_of(text) == pushed.manifest
    assert written(manifest_of(text)) == text


@pytest.mark.parametrize("engine", ["python", "command", "echo", "onnx"])
async def test_an_engine_that_runs_code_never_comes_from_a_library(library, engine):
    told = json.loads(await text_of(library)) | {"engine": engine}

    with pytest.raises(LibraryError, match="engines run code, and that must stand in this machine's own settings"):
        manifest_of(canonical(told))


@pytest.mark.parametrize(
    "changed",
    [
        {"format": "foretold-model/2"},
        {"unknown": 1},
        {"name": "../x"},
        {"name": ""},
        {"files": []},
        {"files": [{"name": "../a.gguf", "sha256": "0" * 64, "size_bytes": 1}]},
        {"files": [{"name": "a.gguf", "sha256": "0" * 63, "size_bytes": 1}]},
        {"files": [{"name": "a.gguf", "sha256": "0" * 64, "size_bytes": 0}]},
        {"files": [{"name": "a.bin", "sha256": "0" * 64, "size_bytes": 1}]},
        {"files": [{"name": n, "sha256": "0" * 64, "size_bytes": 1} for n in ("a.gguf", "A.gguf")]},
        {"files": [{"name": n, "sha256": "0" * 64, "size_bytes": 1} for n in ("a.gguf", "b.gguf")]},
        {"licence": "a\nb"},
        {"context": -1},
        {"kv": {"k": "f16", "v": "f8"}},
        {"capabilities": []},
        {"languages": ["not a language"]},
        {"defaults": {"context": 5000, "max_tokens": 1, "parallel": 1}},
        {"defaults": {"context": 512, "max_tokens": 1, "parallel": 65}},
    ],
)
async def test_a_manifest_out_of_bounds_is_refused(library, changed):
    told = json.loads(await text_of(library)) | changed

    with pytest.raises(LibraryError, match="the manifest"):
        manifest_of(canonical(told))


async def test_a_manifest_in_other_bytes_is_refused_so_that_all_of_it_is_signed(library):
    text = await text_of(library)

    for other in (text + b"\n", text.replace(b'"engine":', b'"engine": '), json.dumps(json.loads(text)).encode()):
        with pytest.raises(LibraryError, match="canonical"):
            manifest_of(other)


async def test_every_changed_byte_of_a_manifest_is_another_revision_or_no_manifest(library):
    text = await text_of(library)

    for at in range(len(text)):
        changed = bytearray(text)
        changed[at] ^= 1
        assert revision_of(bytes(changed)) != revision_of(text)


def test_a_manifest_that_could_not_be_read_again_is_not_written(tmp_path):
    from foretold.models.manifest import SMOLLM2

    with pytest.raises(LibraryError):
        written(dataclasses.replace(SMOLLM2, capabilities=frozenset()))
