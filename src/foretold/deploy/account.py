"""An account of Cloudflare through the official SDK: reads what is there, takes one step.

The SDK is used here, in taking.py, tailing.py and asking.py alone; it comes with the extra `cloudflare`.  All calls
block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from foretold.deploy import rules
from foretold.deploy.asking import asked
from foretold.deploy.changes import Changes, Step
from foretold.deploy.permissions import KV, R2, SCRIPTS, TAIL, Permission, missing, routes_of, told, zone_ids, zone_of
from foretold.deploy.plan import Edge, Route
from foretold.deploy.state import Dns, FoundBucket, FoundDomain, FoundRoute, FoundScript, State
from foretold.deploy.taking import Taker, lifecycle
from foretold.errors import DeployError, DeployForbidden

if TYPE_CHECKING:
    from cloudflare import Cloudflare


class Account:
    def __init__(self, client: Cloudflare, account_id: str):
        self._client = client
        # What makes something new is never repeated blindly: the first try may have arrived.
        self._once = client.with_options(max_retries=0)
        self._id = account_id

    def check_token(self, edge: Edge) -> None:
        """Raises DeployForbidden for a token that is wrong, or lacks a permission, as far as it lets itself be read."""
        token_id = self._verified()
        try:
            with asked("reading the token's permissions"):
                token: Any = self._client.user.tokens.with_raw_response.get(token_id).json()
        except DeployForbidden:
            # Most tokens may not read themselves: what they lack shows in read() and at the first write.
            return
        lacking = missing(edge, (token.get("result") or {}).get("policies") or ())
        if lacking:
            raise DeployForbidden(told(lacking, account_id=self._id))

    def _verified(self) -> str:
        try:
            with asked("checking the token"):
                seen = self._client.user.tokens.verify()
        except DeployForbidden:
            with asked("checking the token"):
                seen = cast(Any, self._client.accounts.tokens.verify(account_id=self._id))
        if seen is None or seen.status != "active":
            raise DeployForbidden(f"the API token is {seen.status if seen else 'unknown'}: make a new one")
        token_id: str = seen.id
        return token_id

    def read(self, edge: Edge) -> State:
        """What is there.  Raises DeployForbidden that names all permissions for reading that are missing."""
        lacking: list[Permission] = []

        def part(permission: Permission, read: Callable[[], Any]) -> Any:
            try:
                return read()
            except DeployForbidden:
                lacking.append(permission)
                return None

        script, zones = edge.script, zone_ids(edge)
        state = State(
            kv_namespace_id=part(KV, partial(self._kv_namespace_id, script.kv.title)),
            buckets=tuple(b for of in script.buckets if (b := part(R2, partial(self._bucket, of.name)))),
            script=part(SCRIPTS, partial(self._script, script.name)),
            workers_dev_subdomain=part(SCRIPTS, self._subdomain),
            domains=part(SCRIPTS, self._domains) or (),
            routes=tuple(r for z in zones for r in part(routes_of(z), partial(self._routes, z)) or ()),
            zones={z: part(zone_of(z), partial(self._zone, z)) or "" for z in zones},
            dns=self._dns(edge.route) if edge.route else Dns.UNREAD,
        )
        if lacking:
            raise DeployForbidden(told(dict.fromkeys(lacking), account_id=self._id))
        return state

    def users(self, edge: Edge, state: State) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
        """Other Workers that are bound to the description's namespace, and to its buckets, by their names."""
        of_kv: dict[str, None] = {}
        of_buckets: dict[str, dict[str, None]] = {bucket.name: {} for bucket in edge.script.buckets}
        for name in self._script_names():
            if name == edge.script.name:
                continue
            for binding in self._settings(name).get("bindings") or ():
                if binding.get("namespace_id") == state.kv_namespace_id and binding.get("type") == "kv_namespace":
                    of_kv[name] = None
                if binding.get("bucket_name") in of_buckets:
                    of_buckets[binding["bucket_name"]][name] = None
        return tuple(of_kv), {bucket: tuple(names) for bucket, names in of_buckets.items()}

    def objects(self, bucket: str) -> list[str]:
        """The keys in a bucket, the oldest object's first."""
        with asked(f"listing the bucket {bucket}"):
            found = list(self._client.r2.buckets.objects.list(bucket, account_id=self._id, per_page=1000))
        return [o.key for o in sorted(found, key=lambda o: str(o.last_modified)) if o.key is not None]

    def object(self, bucket: str, key: str) -> bytes:
        with asked(f"reading the object {key} of the bucket {bucket}"):
            content: bytes = self._client.r2.buckets.objects.get(key, account_id=self._id, bucket_name=bucket).read()
        return content

    @contextmanager
    def tail(self, script_name: str) -> Iterator[str]:
        """The address of a tail of a Worker's runs, which ends with the block."""
        with asked(f"listening to the Worker {script_name}", permission=TAIL):
            made = self._once.workers.scripts.tail.create(script_name, account_id=self._id)
        try:
            yield made.url
        finally:
            with asked("ending the tail", absent_is_none=True):
                self._client.workers.scripts.tail.delete(made.id, account_id=self._id, script_name=script_name)

    def remove_object(self, bucket: str, key: str) -> None:
        with asked(f"deleting an object of the bucket {bucket}"):
            self._client.r2.buckets.objects.delete(key, account_id=self._id, bucket_name=bucket)

    def take(self, step: Step, edge: Edge, changes: Changes, *, kv_namespace_id: str | None) -> str | None:
        """Takes one step; the id of the namespace, if the step made it.  Raises DeployError."""
        taker = Taker(self._client, self._once, self._id)
        return taker.take(step, edge, changes, kv_namespace_id=kv_namespace_id)

    def _kv_namespace_id(self, title: str) -> str | None:
        with asked("listing KV namespaces"):
            for namespace in self._client.kv.namespaces.list(account_id=self._id, per_page=100, order="title"):
                if namespace.title == title:
                    found: str = namespace.id
                    return found
        return None

    def _bucket(self, name: str) -> FoundBucket | None:
        with asked(f"looking for the bucket {name}", absent_is_none=True):
            self._client.r2.buckets.get(name, account_id=self._id)
            return FoundBucket(name=name, lifecycle=lifecycle(self._client, self._id, name))
        return None

    def _settings(self, name: str) -> dict[str, Any]:
        """As the API tells them; empty for a Worker that isn't there."""
        with asked(f"reading the Worker {name}", absent_is_none=True):
            settings = self._client.workers.scripts.script_and_version_settings
            found: Any = settings.with_raw_response.get(name, account_id=self._id).json()
            return cast(dict[str, Any], found["result"])
        return {}

    def _script(self, name: str) -> FoundScript | None:
        said = self._settings(name)
        with asked(f"reading the Worker {name}", absent_is_none=True):
            if not said:
                return None
            subdomain = self._client.workers.scripts.subdomain.get(name, account_id=self._id)
            return FoundScript(
                version_tag=(said.get("annotations") or {}).get("workers/tag") or "",
                tags=tuple(said.get("tags") or ()),
                compatibility_date=said.get("compatibility_date") or "",
                bindings=tuple(said.get("bindings") or ()),
                on_workers_dev=subdomain.enabled,
                has_previews=subdomain.previews_enabled,
            )
        return None

    def _script_names(self) -> Iterator[str]:
        with asked("listing Workers"):
            yield from [s.id for s in self._client.workers.scripts.list(account_id=self._id) if s.id is not None]

    def _subdomain(self) -> str | None:
        with asked("reading the workers.dev subdomain", absent_is_none=True):
            found: str | None = self._client.workers.subdomains.get(account_id=self._id).subdomain
            return found
        return None

    def _routes(self, zone_id: str) -> list[FoundRoute]:
        with asked(f"listing the routes of the zone {zone_id}"):
            found = list(self._client.workers.routes.list(zone_id=zone_id))
        return [FoundRoute(id=r.id, zone_id=zone_id, pattern=r.pattern, script=r.script or "") for r in found]

    def _domains(self) -> tuple[FoundDomain, ...]:
        with asked("listing custom domains"):
            found = list(self._client.workers.domains.list(account_id=self._id))
        return tuple(FoundDomain(id=d.id, hostname=d.hostname, script=d.service) for d in found)

    def _dns(self, route: Route) -> Dns:
        """Of a route's one host.  Not every token may read it; then the plan says what is needed."""
        host = rules.pattern_host(route.pattern)
        if rules.catches_many(route.pattern):
            return Dns.UNREAD
        try:
            # A record of all hosts below a name stands for those without one of their own.
            for name in (host, f"*.{host.partition('.')[2]}"):
                with asked(f"reading the DNS record of {name}"):
                    found = self._client.dns.records.list(zone_id=route.zone_id, name={"exact": name})
                leading = [r for r in found if r.type in ("A", "AAAA", "CNAME")]
                if leading:
                    return Dns.PROXIED if all(r.proxied for r in leading) else Dns.NOT_PROXIED
        except DeployForbidden:
            return Dns.UNREAD
        return Dns.NO_RECORD

    def _zone(self, zone_id: str) -> str:
        with asked(f"reading the zone {zone_id}"):
            found = self._client.zones.get(zone_id=zone_id)
        if found is None:
            raise DeployError(f"the zone {zone_id} is not there")
        name: str = found.name
        return name
