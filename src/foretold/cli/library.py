"""What the commands of `foretold models` do, and how it is told."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foretold.cli.settings import read_config
from foretold.cli.words import Progress
from foretold.datafolder import models_folder
from foretold.errors import ConfigError, LibraryError, LibraryForbidden, LibraryUnreachable, NotInLibrary, Untrusted
from foretold.models.library import importing
from foretold.models.library.address import Address, address_of
from foretold.models.library.bring import Brought, bring
from foretold.models.library.budget import check_fits
from foretold.models.library.catalogue import Catalogue, Found
from foretold.models.library.checking import check_here, check_there
from foretold.models.library.describing import Said, files_of
from foretold.models.library.document import check_name, manifest_of
from foretold.models.library.kept import Kept, Origin
from foretold.models.library.places import place_of, shelf_of, store_at, store_to_fill
from foretold.models.library.push import Pushed
from foretold.models.library.push import push as send
from foretold.models.library.shelf import Using
from foretold.models.library.sweeping import forget_here, sweep_here, sweep_there
from foretold.models.library.trust import Trust, accepted, trusted_keys
from foretold.models.manifest import SMOLLM2, Manifest
from foretold.models.weights import check

if TYPE_CHECKING:
    from foretold.config import Config

FOUND_SOMETHING = 8
# These are this program's own, and not the library's to free.
_BUNDLED = tuple(file.blob for file in SMOLLM2.files)


async def push(path: Path, address: str, said: dict[str, Any], config_file: Path | None, *, as_json: bool) -> None:
    config = read_config(config_file)
    files = {file.name: file for file in files_of(path)}
    await _send(address_of(address), files, said, config, as_json=as_json)


async def take_in(
    source: str,
    address: str,
    member: str,
    sha256: str,
    said: dict[str, Any],
    config_file: Path | None,
    *,
    as_json: bool,
) -> None:
    config, to = read_config(config_file), address_of(address)
    shelf, tell = shelf_of(config, models_folder()), Progress()
    sources = importing.parts_of(source)
    if sha256 and len(sources) > 1:
        raise ConfigError("--sha256 is for a model of one file: each part of a split model has its own")
    using = Using()
    try:
        files = {}
        for one in sources:
            got = await importing.imported(one, shelf, member=member, sha256=sha256, tell=tell)
            using.take(got.file)
            files[got.name] = got.file
        await _send(to, files, said, config, as_json=as_json)
    finally:
        using.close()


async def _send(
    address: Address, files: Mapping[str, Path], given: dict[str, Any], config: Config, *, as_json: bool
) -> None:
    signing_key, replaces, said = given.pop("signing_key"), given.pop("replaces"), _said(given)
    store = store_to_fill(address, config.library)
    pushed = await send(store, files, said, signing_key=signing_key, tell=Progress(), replaces=replaces)
    click.echo(_told_pushed(pushed, address, as_json=as_json))


async def pull(
    name: str, address: str, revision: str, trusted: Sequence[str], config_file: Path | None, *, as_json: bool
) -> None:
    config = read_config(config_file)
    at, named, trust = _meant(name, address, config)
    trust = Trust(revision or ("" if trusted else trust.revision), trusted_keys(trusted) or trust.keys)
    store, using = store_at(at, config.library), Using()
    try:
        if not trust.is_any:
            found = await Catalogue(store).find(named)
            raise Untrusted(
                f"nobody vouches for {named!r} yet: its newest revision is {found.revision}; if that is the one you mean,"
                f" add --revision {found.revision}, or --trust with the key of whoever signs"
            )
        shelf = shelf_of(config, models_folder())
        settings = next((model for model in config.models if model.name == name and not address), None)
        accept = partial(check, settings=settings, config=config) if settings is not None else check_fits
        brought = await bring(shelf, store, named, trust=trust, using=using, tell=Progress(), accept=accept)
    finally:
        using.close()
    click.echo(_told_brought(brought, at, as_json=as_json))


async def list_models(address: str, config_file: Path | None, *, as_json: bool) -> None:
    config = read_config(config_file)
    rows = await _rows_there(address_of(address), config) if address else _rows_here(config)
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    for row in rows:
        size = f"{row['size_bytes'] / 1e6:,.1f} MB" if row["size_bytes"] is not None else "?"
        rest = [row["licence"] or "?", *([row["address"]] if not address else []), row["state"]]
        click.echo("\t".join([row["name"], row["revision"][:12], size, *rest]))


async def show(name: str, address: str, revision: str, config_file: Path | None, *, as_json: bool) -> None:
    config = read_config(config_file)
    keys = config.library.trusted
    if address:
        found = await Catalogue(store_at(address_of(address), config.library)).find(name, revision=revision, keys=keys)
    else:
        origin = _origin(name, config)
        kept = Kept(models_folder())
        text = kept.text(revision or origin.revision)
        if text is None:
            raise NotInLibrary(f"there is no manifest of {name!r} here: `foretold models pull {name}` brings it")
        found = Found(
            origin.name, revision or origin.revision, text, kept.signatures(revision or origin.revision, keys)
        )
    pins = {model.revision for model in config.models if model.revision}
    told = _told_manifest(found, vouched=_vouched(found, Trust(found.revision if found.revision in pins else "", keys)))
    if as_json:
        click.echo(json.dumps(told, indent=2))
        return
    for member, value in told.items():
        click.echo(f"{member}\t{value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}")


async def verify(name: str, address: str, config_file: Path | None, *, as_json: bool) -> int:
    config, tell = read_config(config_file), Progress()
    if address:
        store = store_at(address_of(address), config.library)
        found = await Catalogue(store).find(name)
        manifest = manifest_of(found.text)
        tell.step(f"reading {manifest.size_bytes / 1e6:,.1f} MB from {store}")
        checked = await check_there(store, manifest, told=tell.progress)
    else:
        kept = Kept(models_folder())
        here = kept.manifest(_origin(name, config).revision)
        if here is None:
            raise NotInLibrary(f"the manifest of {name!r} is missing here: `foretold models pull {name}` brings it")
        manifest = here
        tell.step(f"reading {manifest.size_bytes / 1e6:,.1f} MB")
        checked = await check_here(models_folder(), manifest, told=tell.progress)
    rows = [{"file": one.file.name, "sha256": one.file.sha256, "wrong": one.wrong} for one in checked]
    if as_json:
        click.echo(json.dumps({"name": name, "files": rows}, indent=2))
    else:
        for row in rows:
            click.echo(f"{row['file']}\t{row['wrong'] or 'whole'}")
    return FOUND_SOMETHING if any(row["wrong"] for row in rows) else 0


async def remove(name: str, address: str, config_file: Path | None, *, yes: bool, as_json: bool) -> None:
    config = read_config(config_file)
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError(f"this removes {name}: add --yes")
        click.confirm(f"Remove {name}{f' from {address}' if address else ' from this machine'}?", abort=True, err=True)
    if address:
        removed = await Catalogue(store_at(address_of(address), config.library)).remove(check_name(name))
    else:
        gone = forget_here(shelf_of(config, models_folder()), name, wanted=_BUNDLED)
        if not gone:
            raise NotInLibrary(f"there is no model {name!r} of a library here: `foretold models list` shows what is")
        removed = list(gone)
    click.echo(json.dumps({"removed": removed}) if as_json else "\n".join(f"removed\t{one}" for one in removed))


async def sweep(address: str, config_file: Path | None, *, only_look: bool, as_json: bool) -> None:
    config = read_config(config_file)
    if address:
        store = store_at(address_of(address), config.library)
        freed = await sweep_there(store, now=lambda: datetime.now(UTC), only_look=only_look)
    else:
        freed = sweep_here(shelf_of(config, models_folder()), wanted=_BUNDLED, only_look=only_look)
    if as_json:
        rows = [{"name": name, "size_bytes": size} for name, size in freed.removed]
        click.echo(json.dumps({"removed": rows, "size_bytes": freed.size_bytes, "dry_run": only_look}, indent=2))
        return
    did = "would remove" if only_look else "removed"
    for name, size in freed.removed:
        click.echo(f"{did}\t{name}\t{size / 1e6:,.1f} MB")
    click.echo(f"{did} {len(freed.removed)} files, {freed.size_bytes / 1e6:,.1f} MB")


def _meant(name: str, address: str, config: Config) -> tuple[Address, str, Trust]:
    """Which model is meant, where, and who vouches for it as far as the settings say."""
    if address:
        return address_of(address), check_name(name), Trust("", config.library.trusted)
    settings = next((model for model in config.models if model.name == name), None)
    if settings is None or not settings.is_of_a_library:
        why = "is of no library" if settings is not None else "is no model of the settings"
        raise ConfigError(f"{name!r} {why}: name the library it is in, such as s3://BUCKET/PREFIX")
    place = place_of(settings, config.library)
    return place.address, place.name, place.trust


def _origin(name: str, config: Config) -> Origin:
    """The model of that name that is here: the settings' one, else the one that came last."""
    origins = Kept(models_folder()).origins()
    settings = next((model for model in config.models if model.name == name and model.is_of_a_library), None)
    if settings is not None:
        place = place_of(settings, config.library)
        found = [o for o in origins if (o.address, o.name) == (str(place.address), place.name)]
        found = [o for o in found if o.revision == place.trust.revision] or found
    else:
        found = [origin for origin in origins if origin.name == name]
    if not found:
        raise NotInLibrary(f"there is no model {name!r} of a library here: `foretold models list` shows what is")
    return found[-1]


async def _rows_there(address: Address, config: Config) -> list[dict[str, Any]]:
    catalogue = Catalogue(store_at(address, config.library))
    rows = []
    for name in await catalogue.names():
        try:
            found = await catalogue.find(name)
            rows.append(_row(name, found.revision, manifest_of(found.text), str(address), state="there"))
        except (LibraryUnreachable, LibraryForbidden):
            raise
        except (LibraryError, ConfigError) as e:
            rows.append(_row(name, "", None, str(address), state=f"damaged: {e}"))
    return rows


def _rows_here(config: Config) -> list[dict[str, Any]]:
    folder = models_folder()
    if not folder.is_dir():
        return []
    shelf, kept = shelf_of(config, folder), Kept(folder)
    rows = []
    for origin in kept.origins():
        manifest = kept.manifest(origin.revision)
        blobs = [folder / file.blob for file in manifest.files] if manifest is not None else []
        state = "here" if blobs and all(blob.exists() for blob in blobs) else "incomplete"
        if any(shelf.is_used(blob) for blob in blobs):
            state = "in use"
        rows.append(_row(origin.name, origin.revision, manifest, origin.address, state=state))
    return rows


def _row(name: str, revision: str, manifest: Manifest | None, address: str, *, state: str) -> dict[str, Any]:
    return {
        "name": name,
        "revision": revision,
        "size_bytes": manifest.size_bytes if manifest is not None else None,
        "licence": manifest.licence if manifest is not None else None,
        "address": address,
        "state": state,
    }


def _vouched(found: Found, trust: Trust) -> str:
    try:
        return accepted(found.text, found.signatures, name=found.name, trust=trust)[1]
    except Untrusted:
        return "nobody yet: pin its revision, or trust its signer's key"


def _told_manifest(found: Found, *, vouched: str) -> dict[str, Any]:
    manifest = manifest_of(found.text)
    return {
        "name": found.name,
        "revision": found.revision,
        "vouched": vouched,
        **{member: value for member, value in json.loads(found.text).items() if member not in ("format", "name")},
        "size_bytes": manifest.size_bytes,
        "predicted_memory_bytes": manifest.memory_bytes,
    }


def _told_pushed(pushed: Pushed, address: Address, *, as_json: bool) -> str:
    manifest = pushed.manifest
    if as_json:
        return json.dumps(
            {
                "name": manifest.name,
                "revision": pushed.revision,
                "address": str(address),
                "size_bytes": manifest.size_bytes,
                "sent_bytes": pushed.sent_bytes,
                "signed_by": pushed.signed_by,
            }
        )
    lines = [
        f"{manifest.name}\t{manifest.size_bytes / 1e6:,.1f} MB, {pushed.sent_bytes / 1e6:,.1f} MB sent",
        f"revision\t{pushed.revision}",
    ]
    return "\n".join(lines + ([f"signed by\t{pushed.signed_by}"] if pushed.signed_by else []))


def _told_brought(brought: Brought, address: Address, *, as_json: bool) -> str:
    manifest = brought.manifest
    if as_json:
        return json.dumps(
            {
                "name": manifest.name,
                "revision": brought.revision,
                "address": str(address),
                "size_bytes": manifest.size_bytes,
                "fetched_bytes": brought.fetched_bytes,
                "vouched": brought.vouched,
                "weights": str(brought.weights),
            }
        )
    return "\n".join(
        [
            f"{manifest.name}\t{manifest.size_bytes / 1e6:,.1f} MB, {brought.fetched_bytes / 1e6:,.1f} MB fetched",
            f"revision\t{brought.revision}",
            f"vouched\t{brought.vouched}",
            f"weights\t{brought.weights}",
        ]
    )


def _said(given: dict[str, Any]) -> Said:
    file = given.pop("template_file")
    template = None
    if file is not None:
        try:
            template = file.read_text()
        except (OSError, UnicodeDecodeError) as e:
            raise ConfigError(
                f"the template {file} can't be read: {getattr(e, 'strerror', None) or 'no UTF-8'}"
            ) from None
    return Said(chat_template=template, **given)
