"""An account of Cloudflare through the official SDK: reads what is there, takes one step.

The SDK is named here and in asking.py alone; it comes with the extra `cloudflare`.  All calls block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from foretold.deploy.asking import asked
from foretold.deploy.changes import Changes, Step, next_bindings
from foretold.deploy.permissions import KV, R2, SCRIPTS, Permission, missing, routes_of, told, zone_ids, zone_of
from foretold.deploy.plan import OURS, Edge, Script, lifecycle_rules, version_tag
from foretold.deploy.state import FoundBucket, FoundDomain, FoundRoute, FoundScript, State
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
        return seen.id

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
            bucket=part(R2, partial(self._bucket, script.bucket.name)) if script.bucket else None,
            script=part(SCRIPTS, partial(self._script, script.name)),
            workers_dev_subdomain=part(SCRIPTS, self._subdomain),
            domains=part(SCRIPTS, self._domains) or (),
            routes=tuple(r for z in zones for r in part(routes_of(z), partial(self._routes, z)) or ()),
            zones={z: part(zone_of(z), partial(self._zone, z)) or "" for z in zones},
        )
        if lacking:
            raise DeployForbidden(told(dict.fromkeys(lacking), account_id=self._id))
        return state

    def users(self, edge: Edge, state: State) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Other Workers that are bound to the description's namespace, and to its bucket."""
        of_kv, of_bucket = [], []
        bucket = edge.script.bucket.name if edge.script.bucket else None
        for name in self._script_names():
            found = self._script(name) if name != edge.script.name else None
            for binding in found.bindings if found is not None else ():
                if binding.get("namespace_id") == state.kv_namespace_id and binding.get("type") == "kv_namespace":
                    of_kv.append(name)
                if bucket is not None and binding.get("bucket_name") == bucket:
                    of_bucket.append(name)
        return tuple(dict.fromkeys(of_kv)), tuple(dict.fromkeys(of_bucket))

    def objects(self, bucket: str) -> list[str]:
        """The first keys in a bucket, a page of them at most."""
        with asked(f"listing the bucket {bucket}"):
            page = self._client.r2.buckets.objects.list(bucket, account_id=self._id, per_page=1000)
            return [o.key for o in page.result if o.key is not None]

    def remove_object(self, bucket: str, key: str) -> None:
        with asked(f"deleting an object of the bucket {bucket}"):
            self._client.r2.buckets.objects.delete(key, account_id=self._id, bucket_name=bucket)

    def take(self, step: Step, edge: Edge, changes: Changes, *, kv_namespace_id: str | None) -> str | None:
        """Takes one step; the id of the namespace, if the step made it.  Raises DeployError."""
        doing = f"{step.does} {step.kind} {step.name}"
        with asked(doing, permission=_permission_for(step, edge)):
            match step.does, step.kind:
                case "create", "kv":
                    made = self._once.kv.namespaces.create(account_id=self._id, title=step.name)
                    if made is None:
                        raise DeployError(f"{doing}: the account gave no id; run it again")
                    return made.id
                case "create", "bucket":
                    self._once.r2.buckets.create(account_id=self._id, name=step.name)
                case "change", "lifecycle":
                    self._set_lifecycle(edge)
                case "upload", "script":
                    assert kv_namespace_id is not None
                    self._upload(edge, next_bindings(edge, changes.inherited, kv_namespace_id=kv_namespace_id))
                case "change", "workers.dev":
                    self._client.workers.scripts.subdomain.create(
                        step.name, account_id=self._id, enabled=edge.workers_dev, previews_enabled=False
                    )
                case "create", "route":
                    self._once.workers.routes.create(zone_id=step.zone_id, pattern=step.name, script=edge.script.name)
                case "change", "route":
                    self._client.workers.routes.update(
                        step.ref, zone_id=step.zone_id, pattern=step.name, script=edge.script.name
                    )
                case "create", "domain":
                    assert edge.domain is not None
                    self._client.workers.domains.update(
                        account_id=self._id,
                        hostname=step.name,
                        service=edge.script.name,
                        zone_id=edge.domain.zone_id,
                    )
                case "remove", _:
                    self._remove(step)
                case _:
                    raise AssertionError(doing)
        return None

    def _remove(self, step: Step) -> None:
        match step.kind:
            case "route":
                self._client.workers.routes.delete(step.ref, zone_id=step.zone_id)
            case "domain":
                self._client.workers.domains.delete(step.ref, account_id=self._id)
            case "script":
                self._client.workers.scripts.delete(step.name, account_id=self._id)
            case "kv":
                self._client.kv.namespaces.delete(step.ref, account_id=self._id)
            case "bucket":
                self._client.r2.buckets.delete(step.ref, account_id=self._id)

    def _upload(self, edge: Edge, bindings: list[dict[str, Any]]) -> None:
        self._client.workers.scripts.update(
            edge.script.name,
            account_id=self._id,
            # An inherited secret that is gone must be an error, not a Worker without it.
            bindings_inherit="strict",
            metadata=cast(Any, metadata(edge, bindings)),
            files=[(m.name, m.content, m.content_type) for m in edge.script.modules],
        )

    def _set_lifecycle(self, edge: Edge) -> None:
        bucket = edge.script.bucket
        assert bucket is not None
        ours = lifecycle_rules(bucket)
        others = [rule for rule in self._lifecycle(bucket.name) if rule["id"] not in {r["id"] for r in ours}]
        # The rules sent are all there are afterwards.
        self._client.r2.buckets.lifecycle.update(bucket.name, account_id=self._id, rules=cast(Any, [*others, *ours]))

    def _kv_namespace_id(self, title: str) -> str | None:
        with asked("listing KV namespaces"):
            for namespace in self._client.kv.namespaces.list(account_id=self._id, per_page=100, order="title"):
                if namespace.title == title:
                    return namespace.id
        return None

    def _bucket(self, name: str) -> FoundBucket | None:
        with asked(f"looking for the bucket {name}", absent_is_none=True):
            self._client.r2.buckets.get(name, account_id=self._id)
            return FoundBucket(name=name, lifecycle=self._lifecycle(name))
        return None

    def _lifecycle(self, bucket: str) -> list[dict[str, Any]]:
        with asked(f"reading the lifecycle of {bucket}"):
            found = self._client.r2.buckets.lifecycle.get(bucket, account_id=self._id)
        return [rule.to_dict(use_api_names=False, exclude_none=True) for rule in found.rules or ()]

    def _script(self, name: str) -> FoundScript | None:
        with asked(f"reading the Worker {name}", absent_is_none=True):
            settings = self._client.workers.scripts.script_and_version_settings
            found: Any = settings.with_raw_response.get(name, account_id=self._id).json()
            said = found["result"]
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
            return self._client.workers.subdomains.get(account_id=self._id).subdomain
        return None

    def _routes(self, zone_id: str) -> list[FoundRoute]:
        with asked(f"listing the routes of the zone {zone_id}"):
            found = list(self._client.workers.routes.list(zone_id=zone_id))
        return [FoundRoute(id=r.id, zone_id=zone_id, pattern=r.pattern, script=r.script or "") for r in found]

    def _domains(self) -> tuple[FoundDomain, ...]:
        with asked("listing custom domains"):
            found = list(self._client.workers.domains.list(account_id=self._id))
        return tuple(FoundDomain(id=d.id, hostname=d.hostname, script=d.service) for d in found)

    def _zone(self, zone_id: str) -> str:
        with asked(f"reading the zone {zone_id}"):
            found = self._client.zones.get(zone_id=zone_id)
        if found is None:
            raise DeployError(f"the zone {zone_id} is not there")
        return found.name


def metadata(edge: Edge, bindings: list[dict[str, Any]]) -> dict[str, Any]:
    """What goes with an upload, as the SDK takes it."""
    script: Script = edge.script
    return {
        "main_module": script.main_module,
        "compatibility_date": script.compatibility_date,
        "compatibility_flags": list(script.compatibility_flags),
        "bindings": bindings,
        "observability": {"enabled": script.logs},
        "tags": [OURS],
        "annotations": {"workers_tag": version_tag(edge), "workers_message": "by foretold deploy"},
    }


def _permission_for(step: Step, edge: Edge) -> Permission:
    match step.kind:
        case "kv":
            return KV
        case "bucket" | "lifecycle":
            return R2
        case "route":
            return routes_of(step.zone_id)
        case "domain" if edge.domain is not None:
            return routes_of(edge.domain.zone_id)
    return SCRIPTS
