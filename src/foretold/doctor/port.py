"""The port: free, held by a node of ours, or by another program; and who can reach it."""

from __future__ import annotations

import http.client
import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path

from foretold import __version__
from foretold.config.checking import is_loopback, reachable
from foretold.config.settings import Server
from foretold.doctor.finding import Notes, fault, ok, several, skipped, warning
from foretold.doctor.world import World
from foretold.server.listening import holder_of

_ANSWER_S = 3.0


@dataclass(frozen=True, slots=True)
class Holder:
    """Who listens on the port; `version` is that of a node of ours, None for another program."""

    program: str | None
    version: str | None
    is_ready: bool


def holder(world: World) -> Holder | None:
    """None where the port is free, or may be any."""
    if world.config is None or world.config.server.port == 0:
        return None
    host, port = reachable(world.config.server.host), world.config.server.port
    program = holder_of(port)
    try:
        with socket.create_connection((host.strip("[]"), port), _ANSWER_S):
            pass
    except OSError:
        return Holder(program, None, False) if program is not None else None
    version = _version(host, port)
    ready = version is not None and _get(host, port, "/-/ready")[0] == 200
    return Holder(program, version, ready)


def port(world: World, held: Holder | None) -> Notes:
    if world.config is None:
        yield skipped("the settings are not valid")
        return
    server = world.config.server
    if (why := _why_no_address(server)) is not None:
        yield fault(f"server.host is {server.host}: {why}", "name an address of this machine, such as 127.0.0.1")
        return
    number = server.port
    if held is None:
        yield ok("any free one" if number == 0 else f"{number} on {server.host} is free")
        if 0 < number < _first_unprivileged(world.root) and os.geteuid() != 0:
            yield warning(f"ports below {_first_unprivileged(world.root)} need root", "choose a higher server.port")
        return
    by = held.program or "a program that this user can't see"
    if held.version is None:
        yield fault(
            f"{number} on {server.host} is taken by {by}",
            "end that program, or choose another with server.port or --port",
        )
        return
    yield ok(f"{number} on {server.host}: a node runs there, Foretold {held.version}, {by}")
    if held.version != __version__:
        yield warning(f"it is Foretold {held.version}, and this is {__version__}", "restart it to have one version")
    if not held.is_ready:
        yield warning("it says that it is not ready (/-/ready)", "wait until it has started, or see what it says")


def reach(world: World) -> Notes:
    """Who can ask this node."""
    if world.config is None:
        yield skipped("the settings are not valid")
        return
    server = world.config.server
    tenants = len({key.tenant for key in world.config.api_keys})
    keys = f"API keys of {several(tenants, 'tenant')}" if tenants else "no API keys"
    if is_loopback(server.host):
        yield ok(f"bound to {server.host}, {keys}: containers and other machines can't reach it")
    elif server.open and not tenants:
        yield warning(
            f"bound to {server.host}, open, without API keys: whoever reaches this machine may ask, and you pay",
            "make a key: foretold config api-key web >> foretold.toml",
            "then take out server.open",
        )
    else:
        yield ok(f"bound to {server.host}, {keys}")


def _why_no_address(server: Server) -> str | None:
    """Tried with a port that the system chooses, so that nothing is in anybody's way."""
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.bind((server.host.strip("[]"), 0))
    except OSError as e:
        return (e.strerror or str(e)).lower()
    return None


def _version(host: str, port: int) -> str | None:
    """What a node of ours calls itself; None for whatever else answers."""
    status, body = _get(host, port, "/-/health")
    try:
        told = json.loads(body)
        return str(told["version"]) if status == 200 and told["status"] == "ok" else None
    except (ValueError, KeyError, TypeError):
        return None


def _get(host: str, port: int, path: str) -> tuple[int, bytes]:
    """Status and body; 0 where what answers speaks no HTTP, or nothing in time."""
    connection = http.client.HTTPConnection(host.strip("[]"), port, timeout=_ANSWER_S)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read(65_536)
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()


def _first_unprivileged(root: Path) -> int:
    try:
        return int((root / "proc/sys/net/ipv4/ip_unprivileged_port_start").read_text())
    except (OSError, ValueError):
        return 1024
