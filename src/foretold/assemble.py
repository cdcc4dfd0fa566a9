"""Builds a node from its settings.  The only place that names concrete parts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from foretold import languages
from foretold.config.checking import is_loopback
from foretold.config.models import ModelSettings
from foretold.config.settings import Config, RouteSettings, TierSettings, UpstreamSettings
from foretold.config.values import Secret
from foretold.contract.freshness import Lifetimes
from foretold.contract.key import record_name
from foretold.datafolder import DataFolder
from foretold.flights.aftermath import monotonic_ms
from foretold.flights.lease import ALONE
from foretold.generations import FileGenerations
from foretold.leases.locks import can_lock
from foretold.leases.shared import SharedLease
from foretold.models.configured import LocalModel, LocalModels, Weights, local_models_of, models_of
from foretold.models.manifest import revision
from foretold.models.pool import Pool, PoolSlots
from foretold.models.process import PROGRAM
from foretold.node import Node
from foretold.observe.counters import Counters
from foretold.origins.chain import Chain
from foretold.origins.engine_call import Patience
from foretold.origins.local import LocalOrigin
from foretold.origins.predict import TextPredictions
from foretold.origins.renamed import Renamed
from foretold.origins.upstream import Timeouts, Upstream
from foretold.ports import Generations, Origin
from foretold.routes import Route, Routes
from foretold.scope import Scope
from foretold.server.guard import Doors
from foretold.stores.cloudflare.api import KvApi, Place
from foretold.stores.cloudflare.budget import Budget
from foretold.stores.cloudflare.purges import SharedGenerations
from foretold.stores.cloudflare.store import CloudflareKv
from foretold.stores.disk import DiskStore
from foretold.stores.memory import MemoryStore
from foretold.tiers.keeping import Keeping
from foretold.tiers.order import Tiers
from foretold.tiers.tier import Tier

DEFAULT_TIERS = (
    TierSettings(store="memory", limit=256 * 2**20),
    TierSettings(store="disk", limit=2 * 2**30),
)
LARGEST_IN_MEMORY_BYTES = 2**20
TIER_DEADLINE_S = 0.05


@dataclass(frozen=True, slots=True)
class Assembled:
    node: Node
    secret: bytes
    admin_token: str
    models: LocalModels | None
    local: Mapping[str, LocalOrigin]
    upstreams: Mapping[str, Upstream]
    disk_set_aside: Path | None


def wall_ms() -> int:
    """Unix milliseconds."""
    return time.time_ns() // 1_000_000


def assemble(
    config: Config,
    folder: DataFolder,
    *,
    weights: Mapping[str, Weights],
    run_folder: Path,
    now_ms: Callable[[], int] = wall_ms,
    local: Mapping[str, LocalOrigin] | None = None,
    monotonic_ms: Callable[[], int] = monotonic_ms,
    engine: Sequence[str] = PROGRAM,
) -> Assembled:
    """A node that is not serving yet.

    `weights` are those of its local models, by name; `run_folder`, of this user alone, takes their sockets. `local` are
    models that another process runs, instead; `engine` is what Python runs for a model of this one.  The lease of a
    node with several workers is to be opened.  Raises ConfigError, ModelError or StoreError.
    """
    secret = folder.secret()
    models: LocalModels | None = None
    if local is None:
        models = local_models_of(config, weights, run_folder, program=engine)
        local = origins_of(models)
    upstreams = {u.name: upstream_of(u) for u in config.upstreams}
    memory, below, set_aside = _stores(config, folder, now_ms)
    generations: Generations
    if (kv := kv_of(config)) is not None:
        shared, generations = _shared_with_edges(kv, config, folder, secret)
        below.append(shared)
    else:
        generations = FileGenerations(folder.generations, secret)
    tiers = Tiers(memory, below, secret=secret, now_ms=now_ms)
    keeping = Keeping(
        tiers,
        secret=secret,
        largest_bytes=config.cache.record_limit,
        now_ms=now_ms,
        writers=config.server.workers,
    )
    keeping.share(share_of(config))
    node = Node(
        scope=scope_of(config, secret),
        routes=routes_of(config, upstreams, local),
        tiers=tiers,
        keeping=keeping,
        generations=generations,
        counters=Counters(),
        now_ms=now_ms,
        only_observes=config.mode == "observe",
        lease=SharedLease(folder.flights, tiers, keeping, generations=generations)
        if config.server.workers > 1 and can_lock()
        else ALONE,
        monotonic_ms=monotonic_ms,
    )
    return Assembled(node, secret, folder.admin_token(), models, local, upstreams, set_aside)


def origins_of(models: LocalModels) -> dict[str, LocalOrigin]:
    return {model.manifest.name: origin_of(model, models.pool) for model in models.models}


def origin_of(model: LocalModel, pool: Pool) -> LocalOrigin:
    """A model in one revision, which later queries may find replaced by another."""
    slots = PoolSlots(pool, model.which)
    return LocalOrigin(model.host, model.manifest, slots=slots, patience=patience_of(model.settings))


def patience_of(settings: ModelSettings) -> Patience:
    """Waking from sleep is loading without its tests: who comes first bears that."""
    waking_s = settings.load_timeout if settings.sleep else 0.0
    return Patience(first_s=settings.silence + waking_s, idle_s=settings.silence)


def scope_of(config: Config, secret: bytes) -> Scope:
    return Scope(secret, tenants={k.sha256: k.tenant for k in config.api_keys} if config.api_keys else None)


def share_of(config: Config) -> int:
    """The percent of a tier that one tenant may take.

    Where no API keys are set, callers name themselves, so that a share would bound nobody.
    """
    if config.cache.tenant_share is not None:
        return config.cache.tenant_share
    return 50 if len({key.tenant for key in config.api_keys}) > 1 else 100


def doors_of(config: Config) -> Doors:
    server = config.server
    return Doors.of(
        bound_to=server.host, is_loopback=is_loopback(server.host), hosts=server.hosts, origins=server.allowed_origins
    )


def _stores(
    config: Config, folder: DataFolder, now_ms: Callable[[], int]
) -> tuple[MemoryStore, list[Tier], Path | None]:
    below: list[Tier] = []
    memory = MemoryStore(0, largest_bytes=0, now_ms=now_ms)
    set_aside = None
    for tier in config.tiers or DEFAULT_TIERS:
        if tier.store == "memory":
            memory = MemoryStore(tier.limit or 0, largest_bytes=LARGEST_IN_MEMORY_BYTES, now_ms=now_ms)
        elif tier.store == "disk":
            disk = DiskStore(folder.answers, tier.limit or 0, now_ms=now_ms)
            set_aside = disk.set_aside
            below.append(Tier(disk, deadline_s=TIER_DEADLINE_S))
    return memory, below, set_aside


def kv_of(config: Config) -> TierSettings | None:
    """The tier that edges share, if there is one."""
    return next((tier for tier in config.tiers if tier.store == "cloudflare_kv"), None)


def _shared_with_edges(
    kv: TierSettings, config: Config, folder: DataFolder, secret: bytes
) -> tuple[Tier, SharedGenerations]:
    api = api_of(kv, config)
    generations = SharedGenerations(
        FileGenerations(folder.generations, secret),
        api,
        folder.kv_read,
        every_s=kv.read_purges,
        believe_s=kv.believe_purges,
    )
    return Tier(CloudflareKv(api), deadline_s=kv.deadline, named_by=record_name), generations


def api_of(kv: TierSettings, config: Config) -> KvApi:
    assert kv.token is not None
    place = Place(kv.account_id, kv.namespace_id, kv.token.text, kv.url)
    return KvApi(place, Budget(processes=config.server.workers))


def upstream_of(settings: UpstreamSettings) -> Upstream:
    return Upstream(
        settings.name,
        settings.url,
        key=settings.key.text if settings.key is not None else None,
        headers=[(name, v.text if isinstance(v, Secret) else v) for name, v in settings.headers],
        timeouts=Timeouts(
            settings.connect_timeout, settings.first_byte_timeout, settings.idle_timeout, settings.total_timeout
        ),
        connections=settings.connections,
    )


def routes_of(config: Config, upstreams: Mapping[str, Upstream], local: Mapping[str, LocalOrigin]) -> Routes:
    origins: dict[str, Origin] = {**upstreams, **local}
    settings = written_routes(config, local)
    routes = [_route(r, config, origins, local.get(r.model)) for r in settings]
    undeclared = _undeclared_upstream(config)
    if undeclared is not None:
        chain = Chain([origins[undeclared]], retries=0)
        routes.append(Route(name="undeclared", kind="undeclared", origin=chain, stores=False))
    if any(route.languages for route in routes):
        languages.load()
    return Routes(routes, language_of=languages.language_of)


def written_routes(config: Config, local: Iterable[str] | None = None) -> tuple[RouteSettings, ...]:
    """Those of the settings, or what stands for them; `local` are the names of the node's own models."""
    names = [m.name for m in models_of(config)] if local is None else local
    return config.routes or tuple(_default_routes(config, names))


def _default_routes(config: Config, local: Iterable[str]) -> list[RouteSettings]:
    """Without any written down: each local model by its name, all other models to the only upstream."""
    routes = [RouteSettings(name=name, models=(name,), model=name) for name in local]
    if len(config.upstreams) == 1:
        name = config.upstreams[0].name
        routes.append(RouteSettings(name=name, models=("*",), upstream=name))
    return routes


def _route(settings: RouteSettings, config: Config, origins: Mapping[str, Origin], local: LocalOrigin | None) -> Route:
    upstreams = {u.name: u for u in config.upstreams}
    names = (settings.upstream or settings.model, *settings.fallback)
    speaks_json = settings.upstream != "" and upstreams[settings.upstream].speaks == "json"
    asked = {
        name: Renamed(origin, settings.upstream_model) if settings.upstream_model and name in upstreams else origin
        for name, origin in origins.items()
    }
    chained = [asked[name] if speaks_json and name in upstreams else TextPredictions(asked[name]) for name in names]
    cache = config.cache
    retries = upstreams[settings.upstream].retries if settings.upstream else 1
    return Route(
        name=settings.name,
        kind=settings.kind,
        origin=Chain(chained, retries=retries),
        first=Chain(chained[:1], retries=retries) if settings.fallback else None,
        collapses=settings.collapse,
        models=settings.models,
        languages=frozenset(settings.languages),
        sent_model=settings.upstream_model,
        path=settings.path,
        shared=settings.scope == "shared",
        stores=settings.store,
        waits_for_second=settings.admit == "second",
        lifetimes=Lifetimes(
            _or(settings.fresh, cache.fresh),
            _or(settings.stale_while_revalidate, cache.stale_while_revalidate),
            _or(settings.stale_if_error, cache.stale_if_error),
        ),
        respects_upstream=settings.kind != "model" if settings.respect_upstream is None else settings.respect_upstream,
        asks_usage=settings.ask_usage,
        passes_credential=settings.pass_credential,
        finishes_alone=settings.finish_and_store,
        revision=revision(local.manifest) if local is not None else settings.revision,
        engine=local.engine if local is not None else None,
        keyed_headers=frozenset(settings.keyed_headers),
        inert_headers=frozenset(settings.inert_headers),
        known_model=local.manifest.name if local is not None else None,
    )


def _undeclared_upstream(config: Config) -> str | None:
    if config.undeclared:
        return None if config.undeclared == "off" else config.undeclared
    speaking = [u.name for u in config.upstreams if u.speaks == "openai"]
    return speaking[0] if len(speaking) == 1 else None


def _or(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value
