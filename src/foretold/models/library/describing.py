"""From the files of a model to its manifest: what their headers say, and what whoever pushes it says instead."""

from __future__ import annotations

import importlib.util
import mmap
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from foretold.errors import ConfigError, ModelError
from foretold.models.library import abilities, budget
from foretold.models.library.document import check_name
from foretold.models.library.gguf import FIRST_BYTES, BadGguf, Header, NeedsMore, read_header
from foretold.models.manifest import File, Manifest

_SPLIT = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf")
_CONTEXT = 2048
_LEAST_CONTEXT = 256
_MAX_TOKENS = 512
_PARALLEL = 2
_NEITHER = frozenset({"clip", "t5encoder", "wavtokenizer-dec"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What whoever pushes a model says of it; None and empty leave it to its files."""

    name: str = ""
    licence: str = ""
    languages: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    chat_template: str | None = None
    context: int | None = None
    max_tokens: int | None = None
    parallel: int | None = None
    kv: str = "f16"


def files_of(path: Path) -> list[Path]:
    """The file, or the files of the one model in a folder; all parts of a split model, in order.  Raises ConfigError."""
    if path.is_dir():
        found = sorted(path.glob("*.gguf"))
    elif _SPLIT.fullmatch(path.name):
        found = sorted(path.parent.glob(f"{_escaped(_SPLIT.fullmatch(path.name)[1])}-*-of-*.gguf"))  # type: ignore[index]
    else:
        found = [path]
    if not found:
        raise ConfigError(f"there is no .gguf file in {path}")
    if not found[0].is_file():
        raise ConfigError(f"there is no file {path}")
    if len(found) == 1 and not _SPLIT.fullmatch(found[0].name):
        return found
    split = [_SPLIT.fullmatch(file.name) for file in found]
    sets = {(match[1], match[3]) for match in split if match}
    if None in split or len(sets) != 1:
        raise ConfigError(f"{path} has {len(found)} models: name one file, such as {found[0]}")
    (_, count), numbers = sets.pop(), [int(match[2]) for match in split if match]
    missing = sorted(set(range(1, int(count) + 1)) - set(numbers))
    if missing or len(numbers) != int(count):
        raise ConfigError(
            f"of the {int(count)} parts of {found[0].name} these are missing in {found[0].parent}: {missing}"
        )
    return found


def header_of(file: Path) -> Header:
    """Raises ModelError."""
    try:
        size_bytes = file.stat().st_size
        with file.open("rb") as opened:
            start, wanted = b"", FIRST_BYTES
            while True:
                start += opened.read(wanted - len(start))
                try:
                    return read_header(start, size_bytes)
                except NeedsMore as more:
                    wanted = max(2 * wanted, more.least_bytes)
    except OSError as e:
        raise ModelError(f"{file} can't be read: {e.strerror}") from None
    except BadGguf as e:
        raise BadGguf(f"{file}: {e}") from None


def described(headers: Sequence[Header], files: Sequence[File], said: Said) -> Manifest:
    """The manifest of a model in these files.  Raises ModelError, ConfigError."""
    first = headers[0]
    check_parts(headers)
    check_runs(first)
    trained = first.own("context_length")
    trained = trained if type(trained) is int and 0 < trained < 2**31 else 0
    context = said.context or min(_CONTEXT, trained or _CONTEXT)
    if trained and context > trained:
        raise ConfigError(f"--context is {context}, and the model was made for {trained}")
    if abilities.embeds(first) and 0 < trained < _LEAST_CONTEXT:
        raise BadGguf(f"it makes vectors of at most {trained} tokens: {_LEAST_CONTEXT} are the least here")
    able = abilities.capabilities(first, chat_template=said.chat_template, said=said.capabilities)
    parallel = said.parallel or _PARALLEL
    context = max(_LEAST_CONTEXT, context)
    takes = budget.predicted(first, k=said.kv, v=said.kv, parallel=parallel)
    return Manifest(
        name=check_name(said.name or _name_from(files[0].name)),
        files=tuple(files),
        licence=said.licence or str(first.values.get("general.license") or "unknown")[:200],
        capabilities=able,
        languages=said.languages or _languages(first),
        fixed_bytes=takes.fixed_bytes,
        token_bytes=takes.token_bytes,
        context=context,
        parallel=parallel,
        max_tokens=said.max_tokens or _MAX_TOKENS,
        cache_type_k=said.kv,
        cache_type_v=said.kv,
        chat_template=said.chat_template,
        trained_context=trained,
    )


def check_parts(headers: Sequence[Header]) -> None:
    """Raises BadGguf unless the headers are those of all parts of one model, in order."""
    for at, header in enumerate(headers):
        if header.parts != len(headers) or header.part != at:
            raise BadGguf(
                f"file {at + 1} of {len(headers)} says that it is part {header.part + 1} of {header.parts}: a model's parts"
                " belong together, in order"
            )


def check_runs(header: Header) -> None:
    """Raises BadGguf for a file of something that the engine can't answer with."""
    if not header.architecture:
        raise BadGguf("its header names no architecture: it is no model")
    if header.architecture in _NEITHER:
        raise BadGguf(f"it is a model of kind {header.architecture!r}, which writes no text and gives no vectors")
    abilities.embeds(header)
    if not knows(header.architecture):
        raise BadGguf(f"the engine here knows no models of kind {header.architecture[:60]!r}: a newer one may")


def knows(architecture: str) -> bool:
    """Whether the engine that is installed can know an architecture, asked without importing it.

    Its library holds the names of those it knows as C strings.  Where it can't be looked at, whatever is asked.
    """
    spec = importlib.util.find_spec("xllamacpp")
    libraries = [
        f for place in (spec.submodule_search_locations or () if spec else ()) for f in Path(place).glob("*.so")
    ]
    if not libraries:
        return True
    for library in libraries:
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            if content.find(architecture.encode() + b"\0") >= 0:
                return True
    return False


def _name_from(file: str) -> str:
    match = _SPLIT.fullmatch(file)
    stem = match[1] if match else file.removesuffix(".gguf")
    return re.sub(r"[^a-z0-9._-]+", "-", stem.lower()).strip("-._")[:100]


def _languages(header: Header) -> tuple[str, ...]:
    given = header.values.get("general.languages", ())
    known = given if isinstance(given, tuple) else ()
    return tuple(
        one for one in known if isinstance(one, str) and re.fullmatch(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,4}", one)
    )[:200]


def _escaped(text: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", text)
