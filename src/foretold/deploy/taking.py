"""The steps of a deployment, each one write to the account."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, cast

from foretold.deploy.asking import asked
from foretold.deploy.assets import Asset, Assets
from foretold.deploy.changes import Changes, Step, next_bindings
from foretold.deploy.permissions import KV, R2, SCRIPTS, Permission, routes_of
from foretold.deploy.plan import OURS, Bucket, Edge, Script, cache_members, lifecycle_rules, version_tag
from foretold.errors import DeployError, DeployForbidden

if TYPE_CHECKING:
    from cloudflare import Cloudflare


class Taker:
    """`once` is the client for what makes something new, which is never repeated blindly."""

    def __init__(self, client: Cloudflare, once: Cloudflare, account_id: str):
        self._client, self._once, self._id = client, once, account_id

    def take(self, step: Step, edge: Edge, changes: Changes, *, kv_namespace_id: str | None) -> str | None:
        """Takes one step; the id of the namespace, if the step made it.  Raises DeployError."""
        doing = f"{step.does} {step.kind} {step.name}"
        with asked(doing, permission=_permission_for(step, edge)):
            match step.does, step.kind:
                case "create", "kv":
                    made = self._once.kv.namespaces.create(account_id=self._id, title=step.name)
                    if made is None:
                        raise DeployError(f"{doing}: the account gave no id; run it again")
                    namespace_id: str = made.id
                    return namespace_id
                case "create", "bucket":
                    self._once.r2.buckets.create(account_id=self._id, name=step.name)
                case "change", "lifecycle":
                    self._set_lifecycle(next(b for b in edge.script.buckets if b.name == step.name))
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
        assets = edge.script.assets
        redeemable = self._send_assets(edge.script.name, assets) if assets is not None else ""
        self._client.workers.scripts.update(
            edge.script.name,
            account_id=self._id,
            # An inherited secret that is gone must be an error, not a Worker without it.
            bindings_inherit="strict",
            metadata=cast(Any, metadata(edge, bindings, assets_jwt=redeemable)),
            files=[(m.name, m.content, m.content_type) for m in edge.script.modules],
        )

    def _set_lifecycle(self, bucket: Bucket) -> None:
        ours = lifecycle_rules(bucket)
        others = [
            rule for rule in lifecycle(self._client, self._id, bucket.name) if rule["id"] not in {r["id"] for r in ours}
        ]
        # The rules sent are all there are afterwards.
        self._client.r2.buckets.lifecycle.update(bucket.name, account_id=self._id, rules=cast(Any, [*others, *ours]))

    def _send_assets(self, script_name: str, assets: Assets) -> str:
        """What the upload of the script redeems for its files; only those that Cloudflare lacks are sent."""
        session = self._client.workers.scripts.assets.upload.create(
            script_name, account_id=self._id, manifest=cast(Any, assets.manifest())
        )
        by_digest = {file.digest: file for file in assets.files}
        token: str | None = session.jwt if session is not None else None
        for wanted in (session.buckets if session is not None else None) or ():
            unknown = [digest for digest in wanted if digest not in by_digest]
            if unknown or token is None:
                raise DeployError(f"Cloudflare asks for static files that were not named: {', '.join(unknown)}")
            token = self._send_files([by_digest[digest] for digest in wanted], token) or token
        if not token:
            raise DeployError("Cloudflare gave no token for the static files: run it again")
        return token

    def _send_files(self, files: list[Asset], token: str) -> str | None:
        """Sends one batch; the token that the last one gives."""
        form = [(f.digest, (f.digest, base64.b64encode(f.content), f.content_type)) for f in files]
        try:
            with asked("sending static files"):
                told: Any = self._client.post(
                    f"/accounts/{self._id}/workers/assets/upload",
                    cast_to=object,
                    files=cast(Any, form),
                    # The SDK's own method can't say the files' types.
                    options={
                        "params": {"base64": "true"},
                        "headers": {"Authorization": f"Bearer {token}", "Content-Type": "multipart/form-data"},
                    },
                )
        except DeployForbidden as e:
            # It was shown the token of this session, not ours.
            raise DeployError("Cloudflare closed the upload of static files before its end: run it again") from e
        found: str | None = (told.get("result") or {}).get("jwt")
        return found


def lifecycle(client: Cloudflare, account_id: str, bucket: str) -> list[dict[str, Any]]:
    """The rules of a bucket as the SDK takes them."""
    with asked(f"reading the lifecycle of {bucket}"):
        found = client.r2.buckets.lifecycle.get(bucket, account_id=account_id)
    return [rule.to_dict(use_api_names=False, exclude_none=True) for rule in found.rules or ()]


def metadata(edge: Edge, bindings: list[dict[str, Any]], *, assets_jwt: str = "") -> dict[str, Any]:
    """What goes with an upload, as the SDK takes it; `assets_jwt` stands for the static files."""
    script: Script = edge.script
    told: dict[str, Any] = {
        "main_module": script.main_module,
        "compatibility_date": script.compatibility_date,
        "compatibility_flags": list(script.compatibility_flags),
        "bindings": bindings,
        "observability": {"enabled": script.logs},
        "tags": [OURS],
        "annotations": {"workers_tag": version_tag(edge), "workers_message": "by foretold deploy"},
    }
    if script.assets is not None:
        told["assets"] = {"jwt": assets_jwt, "config": script.assets.config()}
    return {**told, **cache_members(script)}


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
