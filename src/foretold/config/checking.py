"""What settings must be together: names that exist, and nothing that contradicts itself."""

from __future__ import annotations

import dataclasses
import difflib
import ipaddress
from collections.abc import Iterable

from foretold.config.engines import Fail, check_models
from foretold.config.fields import CREDENTIALS, FOREIGN_CREDENTIALS
from foretold.config.settings import Config, RouteSettings, TierSettings
from foretold.errors import ConfigError
from foretold.languages import INSTALL, is_installed

TIERS_IN_ORDER = ("memory", "disk", "cloudflare_kv")
OF_KV = ("account_id", "namespace_id", "token", "url", "deadline", "read_purges", "believe_purges")
_DEFAULTS = {f.name: f.default for f in dataclasses.fields(TierSettings)}


def check(config: Config, fail: Fail) -> None:
    """Raises ConfigError."""
    check_reach(config, fail)
    _check_tiers(config, fail)
    names = [r.name for r in config.routes]
    for at, route in enumerate(config.routes):
        if names.index(route.name) != at:
            raise fail(("routes", at, "name"), f"there are two routes {route.name!r}: give each its own name")
        _check_route(config, route, at, fail)
    for at, key in enumerate(config.api_keys):
        if key.sha256 in [k.sha256 for k in config.api_keys[:at]]:
            raise fail(("api_keys", at, "sha256"), "the same API key stands here twice")
    if config.undeclared not in ("", "off"):
        _check_name(config.undeclared, [u.name for u in config.upstreams], ("undeclared",), "upstream", fail)
    if len(config.upstreams) > 1 and not config.routes:
        several = " and ".join(u.name for u in config.upstreams)
        raise fail(("upstreams",), f"which models go to {several}? say so in [[routes]]")
    check_models(config, fail)
    _check_library(config, fail)
    overlap = {u.name for u in config.upstreams} & {m.name for m in config.models}
    if overlap:
        raise fail(("models", min(overlap)), "an upstream has the same name: a fallback could mean either")


def check_reach(config: Config, fail: Fail = lambda place, says: ConfigError(says)) -> None:
    """Raises ConfigError for a node that whoever is on the network could use, unless that is written down."""
    if is_loopback(config.server.host) or config.api_keys or config.server.open:
        return
    raise fail(
        ("server", "host"),
        f"{config.server.host} is reachable from the network: set API keys (`foretold config api-key` makes one), "
        "or server.open = true to let everybody ask",
    )


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def reachable(host: str) -> str:
    """How a program of this machine names a host that a node listens on."""
    try:
        bound = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return host
    if bound.is_unspecified:
        return "127.0.0.1"
    return f"[{bound}]" if bound.version == 6 else str(bound)


def _check_tiers(config: Config, fail: Fail) -> None:
    stores = [t.store for t in config.tiers]
    known = [s for s in TIERS_IN_ORDER if s in stores]
    if stores and (stores != known or stores[0] != "memory"):
        raise fail(("tiers", 0), 'tiers are "memory", then perhaps "disk", then perhaps "cloudflare_kv", each once')
    for at, tier in enumerate(config.tiers):
        place = ("tiers", at)
        of_kv = {name for name in OF_KV if getattr(tier, name) != _DEFAULTS[name]}
        if tier.store == "cloudflare_kv":
            missing = [name for name in ("account_id", "namespace_id", "token") if name not in of_kv]
            if missing:
                raise fail(place, f"`{missing[0]}` is missing: cloudflare_kv needs account_id, namespace_id and token")
            if tier.limit is not None:
                raise fail((*place, "limit"), "cloudflare_kv has none: what is kept there ends with its time")
        elif of_kv:
            raise fail((*place, min(of_kv)), f"{tier.store} takes none: it belongs to cloudflare_kv")
        elif tier.limit is None:
            raise fail(place, "`limit` is missing: how many bytes it may hold, its own overhead counted")


def _check_library(config: Config, fail: Fail) -> None:
    library = config.library
    if bool(library.access_key) != bool(library.secret_key):
        missing = "secret_key" if library.access_key else "access_key"
        raise fail(("library", missing), "an access key has two halves: set access_key and secret_key, or neither")


def _check_route(config: Config, route: RouteSettings, at: int, fail: Fail) -> None:
    place = ("routes", at)
    upstreams, models = [u.name for u in config.upstreams], [m.name for m in config.models]
    if route.name == "undeclared":
        raise fail((*place, "name"), "paths that nobody declared are counted under this name: choose another")
    if (route.upstream or route.model) in route.fallback:
        raise fail((*place, "fallback"), f"{route.upstream or route.model!r} can't stand in for itself")
    if bool(route.upstream) == bool(route.model):
        raise fail(place, "a route is answered by an `upstream` or by a `model` of this node: set one of the two")
    if route.upstream:
        _check_name(route.upstream, upstreams, (*place, "upstream"), "upstream", fail)
    else:
        _check_name(route.model, models, (*place, "model"), "model", fail)
    for name in route.fallback:
        _check_name(name, upstreams + models, (*place, "fallback"), "upstream or model", fail)
    if route.kind == "model":
        if not route.models:
            raise fail((*place, "models"), 'which models does it take? give names, or ["*"]')
        if route.path:
            raise fail((*place, "path"), "a route of kind model takes no path")
    else:
        if not route.path:
            raise fail((*place, "path"), f"a route of kind {route.kind} needs a path")
        if route.models or route.model:
            raise fail((*place, "models"), f"a route of kind {route.kind} goes to an upstream and has no models")
        if route.languages:
            raise fail((*place, "languages"), f"a route of kind {route.kind} doesn't know what its texts are")
    _check_choice(config, route, place, fail)
    if route.scope == "shared" and route.pass_credential:
        raise fail((*place, "scope"), "everybody would share answers that each caller's own credential paid for")
    _check_fields(config, route, place, fail)
    if route.pass_credential and not route.upstream:
        raise fail((*place, "pass_credential"), "a model of this node takes no credential")


def _check_choice(config: Config, route: RouteSettings, place: tuple[str | int, ...], fail: Fail) -> None:
    if route.languages and not is_installed():
        raise fail((*place, "languages"), f"nothing here can tell languages apart: {INSTALL}")
    twin = next((r for r in config.routes if r is not route and r.revision == route.revision), None)
    if route.languages and route.revision and twin is not None:
        raise fail((*place, "revision"), f"route {twin.name!r} has the same, and so could be given this one's answers")
    if not route.upstream_model:
        return
    if not route.upstream or route.kind != "model":
        raise fail(
            (*place, "upstream_model"), "only a route of kind model that goes to an upstream asks it for a model"
        )
    json = [u.name for u in config.upstreams if u.speaks == "json" and u.name in (route.upstream, *route.fallback)]
    if json:
        raise fail((*place, "upstream_model"), f"upstream {json[0]!r} speaks json: it is asked for no model by name")


def _check_fields(config: Config, route: RouteSettings, place: tuple[str | int, ...], fail: Fail) -> None:
    for which in ("keyed_headers", "inert_headers"):
        names = getattr(route, which)
        twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
        if twice is not None:
            raise fail((*place, which), f"{twice!r} stands here twice")
    both = set(route.keyed_headers) & set(route.inert_headers)
    if both:
        raise fail((*place, "inert_headers"), f"{min(both)!r} stands in keyed_headers too: does it change the answer?")
    crossing = set(route.keyed_headers) & FOREIGN_CREDENTIALS
    if route.scope == "shared" and crossing:
        raise fail((*place, "keyed_headers"), f"{min(crossing)!r} says who asks, and everybody would share the answers")
    upstream = next((u for u in config.upstreams if u.name == route.upstream), None)
    if route.pass_credential and upstream is not None:
        instead = {name for name, _ in upstream.headers} & CREDENTIALS
        if instead:
            raise fail(
                (*place, "pass_credential"),
                f"upstream {upstream.name!r} gets {min(instead)!r} from its own `headers`, which would take its place",
            )


def _check_name(name: str, known: Iterable[str], place: tuple[str | int, ...], what: str, fail: Fail) -> None:
    known = list(known)
    if name in known:
        return
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    hint = (
        f"did you mean {near[0]!r}?"
        if near
        else f"there {'is' if len(known) == 1 else 'are'} {', '.join(known) or 'none'}"
    )
    raise fail(place, f"there is no {what} {name!r}; {hint}")
