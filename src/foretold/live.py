"""A node's application, and its settings read anew while it runs.

API keys, upstreams, routes, lifetimes and doors change between two requests, whole or not at all: settings that can't
be read leave everything as it was.  What a running process can't change is named and waits for a restart.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from foretold.assemble import Assembled, doors_of, origin_of, routes_of, scope_of, share_of, upstream_of
from foretold.config.models import ModelSettings
from foretold.config.settings import Config
from foretold.dialects.table import Dialects
from foretold.errors import ConfigError
from foretold.models.configured import LocalModel, models_of
from foretold.models.managing import Managing, PoolManaging, counted
from foretold.models.pool import Pool
from foretold.models.promoting import Brings, Promoting
from foretold.observe.stats import stats
from foretold.origins.local import LocalOrigin
from foretold.origins.upstream import Upstream
from foretold.purging import Purging
from foretold.server.admin import Admin
from foretold.server.app import App
from foretold.server.bodies import Bodies
from foretold.server.guard import Guard
from foretold.server.models import Models

_LIVE = {
    "": frozenset({"mode", "undeclared", "upstreams", "routes", "api_keys"}),
    "server": frozenset({"open", "hosts", "allowed_origins"}),
    "cache": frozenset({"fresh", "stale_while_revalidate", "stale_if_error", "tenant_share"}),
}

# Beside the calls of an upstream: the pauses between them, which its Retry-After may ask for.
GRACE_S = 120.0


@dataclass(frozen=True, slots=True)
class Reloaded:
    """Names of settings: those now in force, and those that were changed in the file and wait for a restart."""

    changed: tuple[str, ...]
    waiting: tuple[str, ...]


class Company(Protocol):
    """All processes of a node together."""

    @property
    def models(self) -> Managing: ...

    async def stats(self) -> dict[str, Any]:
        """The counts of all."""
        ...

    async def reload(self) -> dict[str, object]:
        """Lets all read the settings anew; what changed, as `Reloaded` tells it.  Raises ForetoldError."""
        ...


class Live:
    def __init__(
        self,
        config: Config,
        assembled: Assembled,
        *,
        base_url: str,
        is_ready: Callable[[], bool],
        read: Callable[[], Config],
        company: Company | None = None,
        brings: Brings | None = None,
    ):
        """`read` gives the settings as they are now written; it raises ConfigError.

        `company` is the node as a whole, where this process is one of several; `brings` other revisions of the models
        that this process runs.
        """
        self._config = config
        self._assembled = assembled
        self._base_url = base_url
        self._read = read
        self.upstreams: Mapping[str, Upstream] = assembled.upstreams
        self._local = dict(assembled.local)
        self._closing: set[asyncio.Task[None]] = set()
        node, server = assembled.node, config.server
        self._promoting: Promoting | None = None
        if brings is not None and assembled.models is not None:
            self._promoting = Promoting(assembled.models, brings=brings, switch=self._switch)
        self._managing: Managing = (
            company.models if company is not None else PoolManaging(_pool_of(assembled), self._promoting)
        )
        self._bodies = Bodies(limit_bytes=server.body_limit, together_bytes=server.bodies_together)
        admin = Admin(
            node,
            Purging(node, assembled.secret),
            self._bodies,
            token=assembled.admin_token,
            is_ready=is_ready,
            stats=company.stats if company is not None else self._stats,
            reload=company.reload if company is not None else self._reloaded,
            models=self._managing,
        )
        self.app = App(node, guard=self._guard(config), bodies=self._bodies, admin=admin, models=self._models())

    def reload(self) -> Reloaded:
        """Puts the settings as they are now written into force, from the next request on.  Raises ConfigError."""
        config, now, node = self._read(), self._config, self._assembled.node
        self._check_models(config)
        upstreams = self._upstreams_of(config)
        scope = scope_of(config, self._assembled.secret)
        routes = routes_of(config, upstreams, self._local)
        changed = _changed(now, config)
        if "models" not in changed and {m.name for m in models_of(config)} != set(self._local):
            changed.append("models")  # those that run are what other settings made of it
        # Nothing fails or waits from here on: a request meets all of the old settings or all of the new ones.
        before, self.upstreams = self.upstreams, upstreams
        node.change(scope=scope, routes=routes, only_observes=config.mode == "observe")
        node.keeping.share(share_of(config))
        self.app.change(guard=self._guard(config), models=self._models())
        self._close_later(before, now)
        self._config = _with_live_of(now, config)
        return Reloaded(tuple(filter(_is_live, changed)), tuple(name for name in changed if not _is_live(name)))

    def renew(self, settings: ModelSettings, origin: LocalOrigin) -> None:
        """From the next request on a model of this node is asked in that revision."""
        node, config = self._assembled.node, self._config
        self._local[settings.name] = origin
        models = tuple(settings if one.name == settings.name else one for one in config.models)
        self._config = config = dataclasses.replace(config, models=models)
        routes = routes_of(config, self.upstreams, self._local)
        node.change(scope=node.scope, routes=routes, only_observes=node.only_observes)
        self.app.change(guard=self._guard(config), models=self._models())

    def counts(self) -> dict[str, Any]:
        """Those of this process."""
        models = self._assembled.models
        rows = counted(models.pool.told()) if models is not None else []
        return {**stats(self._assembled.node), "models": rows, "tasks": len(asyncio.all_tasks())}

    async def close(self) -> None:
        """Closes what earlier settings left; the node closes its own."""
        if self._promoting is not None:
            await self._promoting.close()
        for task in self._closing:
            task.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def _switch(self, model: LocalModel) -> None:
        self.renew(model.settings, origin_of(model, _pool_of(self._assembled)))

    async def _stats(self) -> dict[str, Any]:
        return self.counts()

    async def _reloaded(self) -> dict[str, object]:
        return dataclasses.asdict(self.reload())

    def _check_models(self, config: Config) -> None:
        """Raises ConfigError for routes that name a model which doesn't run yet."""
        named = {name for route in config.routes for name in (route.model, *route.fallback) if name}
        missing = named - set(self._local) - {upstream.name for upstream in config.upstreams}
        if missing:
            raise ConfigError(
                f"routes name {', '.join(sorted(map(repr, missing)))}: a model begins to run when the node starts, so "
                "restart it"
            )

    def _guard(self, config: Config) -> Guard:
        node = self._assembled.node
        return Guard(doors_of(config), node.scope, Dialects(node.routes, base_url=self._base_url), self._bodies)

    def _models(self) -> Models:
        node = self._assembled.node
        manifests = {name: origin.manifest for name, origin in self._local.items()}
        return Models(node.routes, node.scope, manifests=manifests, managing=self._managing)

    def _upstreams_of(self, config: Config) -> dict[str, Upstream]:
        """The upstreams of these settings; one whose settings are the same stays, with its connections."""
        before = {settings.name: settings for settings in self._config.upstreams}
        return {
            settings.name: self.upstreams[settings.name]
            if before.get(settings.name) == settings
            else upstream_of(settings)
            for settings in config.upstreams
        }

    def _close_later(self, before: Mapping[str, Upstream], config: Config) -> None:
        """Closes the upstreams that are gone, once no call of theirs can still run."""
        # A call may wait for those before it in its route, and be tried again; connections that rest cost little.
        longest_s = GRACE_S + sum(s.total_timeout * (s.retries + 1) for s in config.upstreams)
        for name, upstream in before.items():
            if self.upstreams.get(name) is not upstream:
                closing = asyncio.create_task(_close_after(longest_s, upstream))
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)


def _pool_of(assembled: Assembled) -> Pool:
    return assembled.models.pool if assembled.models is not None else Pool((), budget_bytes=0)


async def _close_after(seconds: float, upstream: Upstream) -> None:
    try:
        await asyncio.sleep(seconds)
    finally:
        await upstream.close()


def _changed(one: Config, other: Config) -> list[str]:
    """The names of settings that are not the same; a table counts by its members."""
    names = []
    for field in dataclasses.fields(Config):
        here, there = getattr(one, field.name), getattr(other, field.name)
        if field.name == "file" or here == there:
            continue
        if dataclasses.is_dataclass(here):
            members = [m.name for m in dataclasses.fields(here) if getattr(here, m.name) != getattr(there, m.name)]
            names += [f"{field.name}.{member}" for member in members]
        else:
            names.append(field.name)
    return names


def _is_live(name: str) -> bool:
    table, _, member = name.rpartition(".")
    return member in _LIVE.get(table, ())


def _with_live_of(config: Config, other: Config) -> Config:
    """These settings, with those of the other that are in force at once."""
    live = {name: getattr(other, name) for name in _LIVE[""]}
    for table in ("server", "cache"):
        members = {name: getattr(getattr(other, table), name) for name in _LIVE[table]}
        live[table] = dataclasses.replace(getattr(config, table), **members)
    return dataclasses.replace(config, **live)
