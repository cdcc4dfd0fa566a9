"""The models that settings name, each with the process that runs it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from foretold.config.models import ModelSettings
from foretold.config.settings import Config
from foretold.errors import ConfigError, OriginReplaced
from foretold.models.host import Host
from foretold.models.launch import Own
from foretold.models.manifest import SMOLLM2, Manifest
from foretold.models.memory import pool_bytes
from foretold.models.pool import Member, Pool
from foretold.models.process import OWN_PROGRAMS, PROGRAM
from foretold.models.tally import Tally


class Weights(NamedTuple):
    """A model whose files are here and whole: its promise, as settings limit it, and what its engine is given."""

    manifest: Manifest
    file: Path


# Of a model whose settings don't say it, and which has no manifest that does.
_PARALLEL = 2
_MAX_TOKENS = 512
# Beyond its time-out: whoever watches a program says better than its host why it did not begin.
_OWN_WORDS_S = 10.0


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model this node runs, in one revision: what it is, and the process that runs it; `which` as the pool calls it."""

    settings: ModelSettings
    manifest: Manifest
    host: Host
    which: str


class LocalModels:
    """All models that this node runs, and the pool that says which of them are in memory."""

    def __init__(self, models: Iterable[LocalModel], pool: Pool, begin: Callable[[ModelSettings, Weights], Host]):
        """`begin` makes the host of a revision that comes later."""
        self.pool = pool
        self._begin = begin
        self._asked = {model.manifest.name: model for model in models}
        self._all = {model.which: model for model in self._asked.values()}
        self._heard: list[Callable[[str], None]] = []
        pool.on_gone = self._gone

    @property
    def models(self) -> tuple[LocalModel, ...]:
        """Those that are asked, each in its revision."""
        return tuple(self._asked.values())

    def asked(self, name: str) -> LocalModel:
        return self._asked[name]

    def all(self) -> tuple[LocalModel, ...]:
        """Also revisions that are coming, or end their answers."""
        return tuple(self._all.values())

    def of(self, which: str) -> LocalModel:
        """Raises OriginReplaced for a revision that is gone."""
        model = self._all.get(which)
        if model is None:
            raise OriginReplaced(f"model {which!r} has another revision now: ask again")
        return model

    def coming(self, settings: ModelSettings, weights: Weights) -> LocalModel:
        """A revision that may be loaded from now on, beside the one that is asked; one that is still here comes back."""
        for model in self._all.values():
            if (model.settings, model.manifest) == (settings, weights.manifest) and self.pool.bring_back(model.which):
                return model
        host = self._begin(settings, weights)
        which = self.pool.add(member_of(settings, weights.manifest, host))
        model = self._all[which] = LocalModel(settings, weights.manifest, host, which)
        return model

    def ask(self, model: LocalModel) -> None:
        """From now on this one is asked."""
        self._asked[model.manifest.name] = model
        self.pool.ask(model.which)

    def on_gone(self, hear: Callable[[str], None]) -> None:
        """`hear` is told of each revision of which nothing is here any more."""
        self._heard.append(hear)

    def _gone(self, which: str) -> None:
        del self._all[which]
        for hear in self._heard:
            hear(which)


def models_of(config: Config) -> tuple[ModelSettings, ...]:
    """The models to run: those configured, or the bundled one where nothing else could answer."""
    if config.models or config.upstreams:
        return config.models
    return (ModelSettings(name=SMOLLM2.name),)


def limited(manifest: Manifest, settings: ModelSettings) -> Manifest:
    """The model under the name that it has here, with the limits that the settings give instead of its own.

    Raises ConfigError for more context than it was made for.
    """
    context = settings.context or manifest.context
    if settings.context and manifest.trained_context and context > manifest.trained_context:
        raise ConfigError(
            f"models.{settings.name}.context is {context:,}, and the model was made for {manifest.trained_context:,}"
            " tokens: give at most that"
        )
    return manifest.with_settings(
        name=settings.name,
        context=context,
        max_tokens=settings.max_tokens or manifest.max_tokens,
        parallel=1 if settings.reproducible else settings.parallel or manifest.parallel,
        kv=settings.kv,
    )


def own_manifest(settings: ModelSettings) -> Manifest:
    """The promise of a model that an engine of the settings runs: all of it stands there."""
    assert settings.context is not None
    assert settings.memory is not None
    return Manifest(
        name=settings.name,
        files=(),
        licence="",
        capabilities=frozenset(settings.capabilities or ("chat",)),
        languages=settings.languages,
        fixed_bytes=settings.memory,
        token_bytes=0,
        context=settings.context,
        parallel=1 if settings.reproducible else settings.parallel or _PARALLEL,
        max_tokens=settings.max_tokens or min(_MAX_TOKENS, settings.context),
        engine=settings.engine,
        given_revision=settings.revision,
    )


def own_of(settings: ModelSettings) -> Own | None:
    """What the program of such an engine is told."""
    if settings.engine == "gguf":
        return None
    return Own(
        command=settings.command,
        ready=settings.ready or "/health",
        load_s=settings.load_timeout,
        callable=settings.callable,
        path=str(Path(settings.path).expanduser().absolute()) if settings.path else "",
        environment=tuple((name, v if isinstance(v, str) else v.text) for name, v in settings.environment),
        asks_for=settings.model or settings.name,
    )


def local_models_of(
    config: Config, weights: Mapping[str, Weights], run_folder: Path, *, program: Sequence[str] = PROGRAM
) -> LocalModels:
    """`weights` are theirs by name, verified; `run_folder`, of this user alone, takes their sockets.

    `program` is what Python runs as their engine.

    Raises ModelError, with both numbers, for one that the pool can never hold.
    """
    pool: Pool

    def count_here() -> int:
        return pool.count_here

    def begin(settings: ModelSettings, found: Weights) -> Host:
        return Host(
            found.manifest,
            found.file,
            run_folder,
            program=OWN_PROGRAMS.get(settings.engine, program),
            threads=settings.threads or None,
            count_here=count_here,
            tally=tallies.setdefault(settings.name, Tally()),
            own=own_of(settings),
            sleep_s=math.ceil(settings.sleep),
            load_s=settings.load_timeout + (_OWN_WORDS_S if settings.engine == "command" else 0),
        )

    tallies: dict[str, Tally] = {}
    models = []
    for settings in models_of(config):
        found = weights[settings.name]
        models.append(LocalModel(settings, found.manifest, begin(settings, found), settings.name))
    only = len(models) == 1
    members = [member_of(model.settings, model.manifest, model.host, is_only=only) for model in models]
    pool = Pool(members, budget_bytes=pool_bytes(config), tallies=tallies)
    return LocalModels(models, pool, begin)


def member_of(settings: ModelSettings, manifest: Manifest, host: Host, *, is_only: bool = False) -> Member:
    """What the pool knows of a model.  The bundled one, and an only one, are loaded when the node starts."""
    return Member(
        manifest,
        host,
        queue=settings.queue,
        keep_alive_s=settings.keep_alive,
        sleep_s=math.ceil(settings.sleep),
        is_pinned=settings.pin,
        starts_first=settings.keep_alive != 0 and (settings.is_bundled or is_only),
    )
