"""Scripts, their settings, their place on workers.dev, and custom domains."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tests.fakes.cloudflare_api.asking import answer, body, no_body, query, things
from tests.fakes.cloudflare_api.assets import redeemed
from tests.fakes.cloudflare_api.metadata import uploaded
from tests.fakes.cloudflare_api.things import Refusal, Script, identity

SECRETS = ("secret_text", "secret_key")


def routes(root: str) -> list[web.RouteDef]:
    base = f"{root}/accounts/{{account}}/workers"
    script = f"{base}/scripts/{{script}}"
    return [
        web.get(f"{base}/scripts", list_scripts, allow_head=False),
        web.put(script, upload),
        web.delete(script, delete),
        web.get(f"{script}/settings", settings, allow_head=False),
        web.get(f"{script}/subdomain", get_subdomain, allow_head=False),
        web.post(f"{script}/subdomain", set_subdomain),
        web.get(f"{base}/subdomain", account_subdomain, allow_head=False),
        web.get(f"{base}/domains", list_domains, allow_head=False),
        web.put(f"{base}/domains", put_domain),
        web.delete(f"{base}/domains/{{domain}}", delete_domain),
    ]


async def list_scripts(request: web.Request) -> web.Response:
    query(request, "tags")
    return answer([{"id": name, "tags": s.metadata.get("tags", [])} for name, s in things(request).scripts.items()])


async def upload(request: web.Request) -> web.Response:
    """Replaces the whole list of bindings; `inherit` takes one over from the version before."""
    strict = query(request, "bindings_inherit", "excludeScript").get("bindings_inherit") == "strict"
    metadata, modules = await uploaded(request)
    held, name = things(request), request.match_info["script"]
    size = sum(len(content) for _, content in modules.values())
    if size > held.largest_script_bytes:
        raise Refusal(413, 10027, f"Your Worker exceeded the size limit of {held.largest_script_bytes} bytes.")
    given = metadata.pop("assets", None)
    assets = redeemed(held, name, given) if given is not None else {}
    before = held.scripts.get(name)
    bindings, secrets = [], {}
    for binding in metadata.pop("bindings", ()):
        if binding["type"] == "inherit":
            old = [b for b in before.bindings if b["name"] == binding["name"]] if before else []
            if not old and strict:
                raise Refusal(400, 10057, f"Inherited binding {binding['name']!r} not found")
            bindings += old
            if before and binding["name"] in before.secrets:
                secrets[binding["name"]] = before.secrets[binding["name"]]
            continue
        _refers_to_something(request, binding)
        if binding["type"] == "assets" and not assets:
            raise Refusal(400, 10021, "an assets binding needs assets")
        if binding["type"] in SECRETS:
            secrets[binding["name"]] = binding["text"]
            binding = {k: v for k, v in binding.items() if k != "text"}
        bindings.append(binding)
    metadata["assets_config"] = (given or {}).get("config")
    held.scripts[name] = Script(
        metadata,
        modules,
        bindings,
        secrets,
        assets,
        on_workers_dev=before.on_workers_dev if before else True,
        has_previews=before.has_previews if before else True,
        uploads=before.uploads + 1 if before else 1,
    )
    return answer({"id": name, "etag": identity("etag", repr(modules)), "startup_time_ms": 4, "has_modules": True})


def _refers_to_something(request: web.Request, binding: dict[str, Any]) -> None:
    held = things(request)
    if binding["type"] == "kv_namespace" and all(n.id != binding["namespace_id"] for n in held.namespaces):
        raise Refusal(400, 10041, f"KV namespace '{binding['namespace_id']}' not found.")
    if binding["type"] == "r2_bucket" and binding["bucket_name"] not in held.buckets:
        raise Refusal(400, 10085, f"R2 bucket '{binding['bucket_name']}' not found.")


async def delete(request: web.Request) -> web.Response:
    query(request, "force")
    await no_body(request)
    _script(request)
    name, held = request.match_info["script"], things(request)
    del held.scripts[name]
    # As the real API does it: what led to it goes with it.
    held.domains = {k: d for k, d in held.domains.items() if d["service"] != name}
    return answer(None)


async def settings(request: web.Request) -> web.Response:
    query(request)
    found = _script(request)
    told = {k: v for k, v in found.metadata.items() if k not in ("main_module", "assets_config")}
    return answer({**told, "bindings": found.bindings, "usage_model": "standard"})


async def get_subdomain(request: web.Request) -> web.Response:
    query(request)
    found = _script(request)
    return answer({"enabled": found.on_workers_dev, "previews_enabled": found.has_previews})


async def set_subdomain(request: web.Request) -> web.Response:
    told = await body(request, enabled=bool, _previews_enabled=bool)
    found = _script(request)
    if told["enabled"] and things(request).subdomain is None:
        raise Refusal(404, 10007, "You need to register a workers.dev subdomain")
    found.on_workers_dev = told["enabled"]
    found.has_previews = told.get("previews_enabled", told["enabled"])
    return answer({"enabled": found.on_workers_dev, "previews_enabled": found.has_previews})


async def account_subdomain(request: web.Request) -> web.Response:
    query(request)
    if things(request).subdomain is None:
        raise Refusal(404, 10007, "You do not have a workers.dev subdomain.")
    return answer({"subdomain": things(request).subdomain})


async def list_domains(request: web.Request) -> web.Response:
    query(request, "hostname", "service", "zone_id", "zone_name", "environment")
    return answer(list(things(request).domains.values()))


async def put_domain(request: web.Request) -> web.Response:
    """Attaches a host; one that another Worker has changes its owner without a word."""
    told = await body(request, hostname=str, service=str, zone_id=str, _environment=str)
    held = things(request)
    zone = held.zones.get(told["zone_id"])
    if zone is None or not (told["hostname"] == zone or told["hostname"].endswith(f".{zone}")):
        raise Refusal(400, 100116, "hostname is not in the zone")
    if told["service"] not in held.scripts:
        raise Refusal(404, 10007, "This Worker does not exist on your account.")
    domain_id = identity("domain", told["hostname"])
    held.domains[domain_id] = {
        "id": domain_id,
        "zone_name": zone,
        "cert_id": identity("cert", told["hostname"]),
        "environment": "production",
        **told,
    }
    return answer(held.domains[domain_id])


async def delete_domain(request: web.Request) -> web.Response:
    await no_body(request)
    if things(request).domains.pop(request.match_info["domain"], None) is None:
        raise Refusal(404, 100114, "domain not found")
    return answer({})


def _script(request: web.Request) -> Script:
    found = things(request).scripts.get(request.match_info["script"])
    if found is None:
        raise Refusal(404, 10007, "This Worker does not exist on your account.")
    return found
