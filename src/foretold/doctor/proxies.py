"""What stands between this process and its upstreams: proxies and certificates, as the node itself would use them."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from foretold.config.settings import UpstreamSettings
from foretold.doctor.addresses import without_userinfo
from foretold.doctor.finding import Note, Notes, fault, ok, skipped, warning
from foretold.doctor.world import World
from foretold.origins.upstream import proxy_for

_OTHERS = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")


def proxies(world: World) -> Notes:
    upstreams = world.config.upstreams if world.config is not None else ()
    if not upstreams:
        yield skipped("no upstreams" if world.config is not None else "the settings are not valid")
        return
    for upstream in upstreams:
        yield from _way_to(upstream)
    if world.environ.get("ALL_PROXY") or world.environ.get("all_proxy"):
        yield warning("ALL_PROXY is set, and is not read here", "set HTTPS_PROXY or HTTP_PROXY if it should count")
    if any(upstream.url.startswith("https:") for upstream in upstreams):
        yield from _certificates(world)


def _way_to(upstream: UpstreamSettings) -> Iterator[Note]:
    proxy = proxy_for(upstream.url)
    if proxy is None:
        yield ok(f"{upstream.name}: directly, no proxy")
        return
    scheme = urlsplit(upstream.url).scheme.upper()
    shown = without_userinfo(proxy)
    if urlsplit(proxy).scheme != "http":
        yield fault(
            f"{upstream.name}: {scheme}_PROXY is {shown}, and only proxies at http://… can be used",
            "set it to an HTTP proxy, or add the upstream's host to NO_PROXY",
        )
    else:
        yield ok(f"{upstream.name}: through {shown} ({scheme}_PROXY)")


def _certificates(world: World) -> Iterator[Note]:
    """Which certificates are trusted; the variables are those that OpenSSL reads."""
    for name, is_there in (("SSL_CERT_FILE", Path.is_file), ("SSL_CERT_DIR", Path.is_dir)):
        if not (value := world.environ.get(name)):
            continue
        if not all(is_there(Path(part)) for part in value.split(":")):
            yield fault(
                f"{name} is {value}, which is not there: no upstream's certificate can be trusted", "correct it"
            )
            return
        yield ok(f"certificates: {name} is {value}")
    paths = ssl.get_default_verify_paths()
    count = ssl.create_default_context().cert_store_stats()["x509_ca"]
    if count == 0 and paths.capath is None:
        yield fault(
            "this machine trusts no certificate authority", "install the package ca-certificates, or set SSL_CERT_FILE"
        )
    else:
        yield ok(f"certificates: {count} authorities" if count else f"certificates: those of {paths.capath}")
    for name in _OTHERS:
        if world.environ.get(name) and not world.environ.get("SSL_CERT_FILE"):
            yield warning(f"{name} is set, and is not read here", f'export SSL_CERT_FILE="${name}"')
