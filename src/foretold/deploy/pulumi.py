"""The description as a Pulumi component, for those who keep all their infrastructure there.

    edge = Edge(account_id=…, script=Script(…), route=Route(…))
    made = EdgePredictions("predictions", edge, secrets={"UPSTREAM_KEY": config.require_secret("upstreamKey")})
    pulumi.export("kv_namespace_id", made.kv_namespace_id)

Needs the extra `pulumi`.  What Pulumi's own types let through, such as a wrong pattern or id, the description has
refused before.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from foretold.deploy import rules
from foretold.deploy.assets import Assets
from foretold.deploy.plan import Bucket, Edge, Module, Script, cache_members, lifecycle_rules, wire_bindings
from foretold.errors import ConfigError

try:
    import pulumi
    import pulumi_cloudflare as cloudflare
except ImportError:
    raise ConfigError("this needs Pulumi: pip install 'foretold[pulumi]'") from None


class EdgePredictions(pulumi.ComponentResource):
    """KV namespace, bucket, Worker, route and domain of one edge.

    `secrets` are values by binding name; they stay secret in Pulumi's state.  A description must carry none itself.
    """

    kv_namespace_id: pulumi.Output[str]
    worker_script_name: pulumi.Output[str]
    worker_route_pattern: pulumi.Output[str] | None

    def __init__(
        self,
        name: str,
        edge: Edge,
        *,
        secrets: Mapping[str, pulumi.Input[str]] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ):
        super().__init__("foretold:deploy:EdgePredictions", name, None, opts)
        secrets = secrets or {}
        _check(edge, secrets)
        self._name, self._edge = name, edge
        namespace = cloudflare.WorkersKvNamespace(
            f"{name}-kv", account_id=edge.account_id, title=edge.script.kv.title, opts=self._inside()
        )
        stores: list[pulumi.Resource] = [namespace]
        for role, bucket in (("bucket", edge.script.bucket), ("log-bucket", edge.script.log_bucket)):
            stores += self._bucket(role, bucket) if bucket is not None else []
        script = self._script(namespace.id, secrets, stores)
        self._reach(script)
        self.kv_namespace_id = namespace.id
        self.worker_script_name = script.script_name
        self.worker_route_pattern = self._route(script)
        self.register_outputs(
            {
                "kv_namespace_id": self.kv_namespace_id,
                "worker_script_name": self.worker_script_name,
                "worker_route_pattern": self.worker_route_pattern,
            }
        )

    def _inside(self, *after: pulumi.Resource) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(parent=self, depends_on=list(after))

    def _bucket(self, role: str, bucket: Bucket) -> list[pulumi.Resource]:
        made = cloudflare.R2Bucket(
            f"{self._name}-{role}", account_id=self._edge.account_id, name=bucket.name, opts=self._inside()
        )
        cloudflare.R2BucketLifecycle(
            f"{self._name}-{role}-lifecycle",
            account_id=self._edge.account_id,
            bucket_name=made.name,
            rules=_lifecycle(bucket),
            opts=self._inside(made),
        )
        return [made]

    def _script(
        self,
        kv_namespace_id: pulumi.Output[str],
        secrets: Mapping[str, pulumi.Input[str]],
        stores: list[pulumi.Resource],
    ) -> cloudflare.WorkersScript:
        script = self._edge.script
        bindings = [_binding(b) for b in wire_bindings(script, kv_namespace_id=kv_namespace_id)]
        bindings += [
            cloudflare.WorkersScriptBindingArgs(name=name, type="secret_text", text=pulumi.Output.secret(text))
            for name, text in secrets.items()
        ]
        main = next(m for m in script.modules if m.name == script.main_module)
        return cloudflare.WorkersScript(
            f"{self._name}-script",
            account_id=self._edge.account_id,
            script_name=script.name,
            main_module=script.main_module,
            content_file=_file(main),
            content_sha256=main.sha256,
            files={m.name: _module(m) for m in script.modules if m is not main},
            bindings=bindings,
            assets=_assets(script.assets) if script.assets is not None else None,
            **_cache(script),
            compatibility_date=script.compatibility_date,
            compatibility_flags=list(script.compatibility_flags),
            observability=cloudflare.WorkersScriptObservabilityArgs(enabled=script.logs),
            opts=self._inside(*stores),
        )

    def _reach(self, script: cloudflare.WorkersScript) -> None:
        edge = self._edge
        cloudflare.WorkersScriptSubdomain(
            f"{self._name}-workers-dev",
            account_id=edge.account_id,
            script_name=script.script_name,
            enabled=edge.workers_dev,
            previews_enabled=False,
            opts=self._inside(script),
        )
        if edge.domain is not None:
            cloudflare.WorkersCustomDomain(
                f"{self._name}-domain",
                account_id=edge.account_id,
                hostname=edge.domain.hostname,
                service=script.script_name,
                zone_id=edge.domain.zone_id,
                opts=self._inside(script),
            )

    def _route(self, script: cloudflare.WorkersScript) -> pulumi.Output[str] | None:
        route = self._edge.route
        if route is None:
            return None
        made = cloudflare.WorkersRoute(
            f"{self._name}-route",
            zone_id=route.zone_id,
            pattern=route.pattern,
            script=script.script_name,
            opts=self._inside(script),
        )
        pattern: pulumi.Output[str] = made.pattern
        return pattern


def _check(edge: Edge, secrets: Mapping[str, pulumi.Input[str]]) -> None:
    if edge.script.secrets:
        raise ConfigError("the description carries secrets in the clear: give them as `secrets`, from Pulumi's config")
    for name in secrets:
        rules.check_binding(name)
    rules.check_apart([str(b["name"]) for b in wire_bindings(edge.script, kv_namespace_id="")] + list(secrets))


def _binding(wire: dict[str, Any]) -> cloudflare.WorkersScriptBindingArgs:
    """As typed arguments: a member that Pulumi doesn't know is an error here."""
    simple = wire.get("simple")
    if simple is not None:
        wire = {**wire, "simple": cloudflare.WorkersScriptBindingSimpleArgs(**simple)}
    return cloudflare.WorkersScriptBindingArgs(**wire)


def _module(module: Module) -> cloudflare.WorkersScriptFilesArgs:
    return cloudflare.WorkersScriptFilesArgs(
        content_type=module.content_type,
        content_base64=base64.b64encode(module.content).decode(),
        content_sha256=module.sha256,
    )


def _assets(assets: Assets) -> cloudflare.WorkersScriptAssetsArgs:
    if assets.folder is None:
        raise ConfigError("the static files are in no folder, and Pulumi reads folders: collect them from one")
    return cloudflare.WorkersScriptAssetsArgs(
        directory=str(assets.folder),
        config=cloudflare.WorkersScriptAssetsConfigArgs(**assets.config()),
    )


def _cache(script: Script) -> dict[str, Any]:
    told = cache_members(script)
    if not told:
        return {}
    return {
        "cache_options": cloudflare.WorkersScriptCacheOptionsArgs(**told["cache_options"]),
        "exports": {
            name: cloudflare.WorkersScriptExportsArgs(
                type=export["type"], cache=cloudflare.WorkersScriptExportsCacheArgs(**export["cache"])
            )
            for name, export in told["exports"].items()
        },
    }


def _file(module: Module) -> str:
    if module.file is None:
        raise ConfigError(f"the module {module.name!r} is in no file, and Pulumi reads files: collect it from one")
    return str(module.file)


def _lifecycle(bucket: Bucket) -> list[cloudflare.R2BucketLifecycleRuleArgs]:
    rule = lifecycle_rules(bucket)[0]
    delete = rule["delete_objects_transition"]["condition"]
    abort = rule["abort_multipart_uploads_transition"]["condition"]
    return [
        cloudflare.R2BucketLifecycleRuleArgs(
            id=rule["id"],
            enabled=rule["enabled"],
            conditions=cloudflare.R2BucketLifecycleRuleConditionsArgs(**rule["conditions"]),
            delete_objects_transition=cloudflare.R2BucketLifecycleRuleDeleteObjectsTransitionArgs(
                condition=cloudflare.R2BucketLifecycleRuleDeleteObjectsTransitionConditionArgs(**delete)
            ),
            abort_multipart_uploads_transition=cloudflare.R2BucketLifecycleRuleAbortMultipartUploadsTransitionArgs(
                condition=cloudflare.R2BucketLifecycleRuleAbortMultipartUploadsTransitionConditionArgs(**abort)
            ),
        )
    ]
