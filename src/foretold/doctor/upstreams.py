"""Each upstream, asked as the node would ask it: name, connection, TLS, and a look at its models.

All at once, each within a deadline.  A key is sent where it belongs and never shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import aiohttp

from foretold.config import Config
from foretold.config.settings import UpstreamSettings
from foretold.config.values import Secret
from foretold.doctor.addresses import without_userinfo
from foretold.doctor.answers import Answer, judged
from foretold.doctor.finding import Finding, Note, fault, ok, warning
from foretold.origins.upstream import proxy_for

DEADLINE_S = 5.0
_LONGEST_BODY = 2**20
_FEW_DAYS = 14
_PORTS = {"http": 80, "https": 443}


@dataclass(slots=True)
class Visit:
    """What one upstream showed; `ahead_s` is how far our clock is ahead of its own."""

    name: str
    notes: list[Note] = field(default_factory=list)
    ahead_s: float | None = None
    step: str = ""

    @property
    def finding(self) -> Finding:
        return Finding(f"upstream {self.name}", tuple(self.notes))


class _Stopped(Exception):
    """There is no going on; the note says why."""

    def __init__(self, note: Note):
        self.note = note


def visit_all(config: Config, *, deadline_s: float = DEADLINE_S) -> list[Visit]:
    async def all_at_once() -> list[Visit]:
        callers = {route.upstream for route in config.routes if route.pass_credential}
        return await asyncio.gather(
            *(visit(u, callers_bring_keys=u.name in callers, deadline_s=deadline_s) for u in config.upstreams)
        )

    return asyncio.run(all_at_once()) if config.upstreams else []


async def visit(upstream: UpstreamSettings, *, callers_bring_keys: bool, deadline_s: float) -> Visit:
    visit = Visit(upstream.name)
    try:
        async with asyncio.timeout(deadline_s):
            await _go(upstream, visit, callers_bring_keys=callers_bring_keys)
    except TimeoutError:
        visit.notes.append(
            fault(
                f"{visit.step} took over {deadline_s:g} s",
                "look at the network, at a firewall, for a proxy that is needed, for http instead of https",
            )
        )
    except _Stopped as stopped:
        visit.notes.append(stopped.note)
    return visit


async def _go(upstream: UpstreamSettings, visit: Visit, *, callers_bring_keys: bool) -> None:
    parts = urlsplit(upstream.url)
    try:
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    except ValueError:
        raise _Stopped(fault(f"url is {without_userinfo(upstream.url)}: no such port", "correct it")) from None
    proxy = proxy_for(upstream.url)
    context = ssl.create_default_context() if parts.scheme == "https" else None
    named_in = "the upstream's url"
    if proxy is not None:
        through = urlsplit(proxy)
        host, port, named_in = through.hostname or "", through.port or 80, f"{parts.scheme.upper()}_PROXY"
        if through.scheme != "http":
            raise _Stopped(fault("its proxy is no HTTP proxy", f"set {named_in} to one, or its host in NO_PROXY"))
    await _resolve(host, port, visit, named_in=named_in)
    await _connect(host, port, context if proxy is None else None, visit, named_in=named_in)
    if upstream.speaks == "openai":
        await _ask_models(upstream, proxy, context, visit, callers_bring_keys=callers_bring_keys)
    else:
        visit.notes.append(ok(f"{host}:{port} can be reached; what it answers is not tried"))


async def _resolve(host: str, port: int, visit: Visit, *, named_in: str) -> None:
    """In a thread that nobody waits for: a resolver may hang longer than our deadline."""
    visit.step = f"looking up the name {host}"
    loop = asyncio.get_running_loop()
    found: asyncio.Future[OSError | UnicodeError | None] = loop.create_future()

    def look_up() -> None:
        error: OSError | UnicodeError | None = None
        try:
            socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as e:
            error = e
        with contextlib.suppress(RuntimeError):  # the loop is closed: the deadline was over
            loop.call_soon_threadsafe(lambda: None if found.done() else found.set_result(error))

    threading.Thread(target=look_up, daemon=True).start()
    if (error := await found) is not None:
        why = getattr(error, "strerror", None) or "it is no name"
        raise _Stopped(
            fault(
                f"the name {host} can't be looked up: {why}",
                f"correct {named_in}, or look at this machine's DNS",
            )
        )


async def _connect(host: str, port: int, context: ssl.SSLContext | None, visit: Visit, *, named_in: str) -> None:
    """Opens a connection and closes it; with TLS, says how long its certificate is good."""
    visit.step = f"connecting to {host}:{port}"
    try:
        _, writer = await asyncio.open_connection(host, port, happy_eyeballs_delay=0.25)
    except OSError as e:
        why = os.strerror(e.errno) if e.errno else str(e)
        raise _Stopped(
            fault(
                f"{host}:{port} can't be reached: {why}",
                f"start it, or correct {named_in}, or see to a firewall",
            )
        ) from None
    try:
        if context is not None:
            await _secure(writer, host, context, visit)
    finally:
        writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            await writer.wait_closed()


async def _secure(writer: asyncio.StreamWriter, host: str, context: ssl.SSLContext, visit: Visit) -> None:
    visit.step = f"TLS with {host}"
    try:
        await writer.start_tls(context, server_hostname=host)
    except ssl.SSLCertVerificationError as e:
        raise _Stopped(_refused_certificate(host, e)) from None
    except OSError as e:
        why = getattr(e, "reason", None) or e.strerror or type(e).__name__
        raise _Stopped(
            fault(f"no TLS with {host}: {why}", "is it https at all? else correct the upstream's url")
        ) from None
    ends_s = ssl.cert_time_to_seconds(writer.get_extra_info("ssl_object").getpeercert()["notAfter"])
    visit.notes.append(_days_left(host, (ends_s - time.time()) / 86_400))


def _days_left(host: str, days: float) -> Note:
    if days < _FEW_DAYS:
        return warning(f"TLS valid, but the certificate of {host} ends in {days:.0f} days", "renew it in time")
    return ok(f"TLS valid, {days:.0f} days left")


def _refused_certificate(host: str, e: ssl.SSLCertVerificationError) -> Note:
    why = e.verify_message
    if "expired" in why or "not yet valid" in why:
        return fault(f"the certificate of {host}: {why}", "look at this machine's clock; else its owner must renew it")
    if "match" in why or "mismatch" in why:
        return fault(f"the certificate of {host}: {why}", "name the host in url as its certificate does")
    return fault(
        f"the certificate of {host} is not trusted: {why}",
        "a proxy or a company's own authority? export SSL_CERT_FILE=/path/to/its/certificates.pem",
    )


async def _ask_models(
    upstream: UpstreamSettings,
    proxy: str | None,
    context: ssl.SSLContext | None,
    visit: Visit,
    *,
    callers_bring_keys: bool,
) -> None:
    address = models_address(upstream.url)
    visit.step = f"asking {without_userinfo(address)}"
    began_s = time.time()
    try:
        async with (
            aiohttp.ClientSession(trust_env=False, cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.get(
                address, headers=_headers(upstream), proxy=proxy, ssl=context or True, allow_redirects=False
            ) as response,
        ):
            took_s = time.time() - began_s
            body = await _body(response.content)
    except (aiohttp.ClientError, OSError, ValueError) as e:
        raise _Stopped(_no_answer(address, e)) from None
    if (date := response.headers.get("date")) is not None:
        # A Date is cut to whole seconds: on average half a second too old.
        with contextlib.suppress(ValueError, TypeError):
            visit.ahead_s = began_s + took_s / 2 - (parsedate_to_datetime(date).timestamp() + 0.5)
    answer = Answer(response.status, body, took_s * 1000, response.headers.get("location", ""))
    visit.notes.extend(judged(upstream, answer, callers_bring_keys=callers_bring_keys))


async def _body(content: aiohttp.StreamReader) -> bytes:
    """Its beginning at least: no list of models is longer than what is read."""
    body = b""
    while len(body) < _LONGEST_BODY and (more := await content.readany()):
        body += more
    return body


def _no_answer(address: str, e: Exception) -> Note:
    match e:
        case aiohttp.ClientConnectorCertificateError(certificate_error=ssl.SSLCertVerificationError() as refused):
            return _refused_certificate(e.host, refused)
        case aiohttp.ClientHttpProxyError():
            return fault(f"the proxy refused with {e.status}", "look at HTTPS_PROXY, the name and the password in it")
    said = f"{without_userinfo(address)} gives no answer in HTTP ({type(e).__name__})"
    return fault(said, "correct the upstream's url: http or https, host, port")


def models_address(url: str) -> str:
    """Where the node would ask for models: an address that ends with /v1 has it already."""
    base = url.rstrip("/")
    return f"{base}/models" if base.endswith("/v1") else f"{base}/v1/models"


def _headers(upstream: UpstreamSettings) -> Sequence[tuple[str, str]]:
    own = [(name, value.text if isinstance(value, Secret) else value) for name, value in upstream.headers]
    if upstream.key is not None and not any(name == "authorization" for name, _ in own):
        own.append(("authorization", f"Bearer {upstream.key.text}"))
    return own
