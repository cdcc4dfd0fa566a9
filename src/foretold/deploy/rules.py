"""Cloudflare's rules for names, ids and patterns: what its API refuses late, or misreads, is refused here at once.

Every function raises ConfigError.  Sources: developers.cloudflare.com, the pages on limits, routes and bindings.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence

from foretold.errors import ConfigError

LARGEST_SCRIPT_BYTES = 64 * 2**20
LONGEST_VALUE_BYTES = 5 * 1024

_ID = re.compile(r"[0-9a-f]{32}")
_BINDING = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_SCRIPT = re.compile(r"[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
_DATASET = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_HOST_STAR = re.compile(r"\*\.?")


def check_id(text: str, what: str) -> None:
    if _ID.fullmatch(text):
        return
    found = f"has {len(text)} characters" if re.fullmatch(r"[0-9A-Fa-f]*", text) else f"is {text!r}"
    if _ID.fullmatch(text.lower()):
        found = "has capital letters"
    if re.search(r"\s", text) and _ID.fullmatch("".join(text.split())):
        found = "has a space in it"
    raise ConfigError(f"the {what} id {found}: give the 32 hex digits of the {what}'s overview page, in lower case")


def check_binding(name: str) -> None:
    if not _BINDING.fullmatch(name):
        raise ConfigError(f"the binding name {name!r} is no JavaScript name: letters, digits and _, no digit first")


def check_apart(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"two bindings are named {name!r}: the Worker would see only one; rename one of them")


def check_entrypoint(name: str) -> None:
    if not _BINDING.fullmatch(name):
        raise ConfigError(f"the entrypoint {name!r} is no JavaScript name: give that of an exported class")


def check_title(title: str) -> None:
    if not title.strip() or len(title) > 512 or any(ord(c) < 32 for c in title):
        raise ConfigError(f"the KV namespace's title {title!r} must be one line of 1 to 512 characters")


def check_bucket(name: str) -> None:
    if not _BUCKET.fullmatch(name):
        raise ConfigError(f"the bucket name {name!r} must be 3 to 63 of a-z, 0-9 and -, with no - at its ends")


def check_dataset(name: str) -> None:
    if not _DATASET.fullmatch(name):
        raise ConfigError(f"the dataset name {name!r} must be letters, digits and _, at most 100")


def check_rate(namespace_id: str, *, requests: int, period_s: int) -> None:
    if not re.fullmatch(r"[1-9][0-9]{0,9}", namespace_id):
        raise ConfigError(f"the rate limit's namespace id is {namespace_id!r}: give a whole number above 0")
    if period_s not in (10, 60):
        raise ConfigError(f"the rate limit's period is {period_s} s: Cloudflare counts over 10 s or 60 s only")
    if requests < 1:
        raise ConfigError(f"the rate limit lets {requests} requests through: give 1 or more")


def check_value(name: str, text: str) -> None:
    size = len(text.encode())
    if size > LONGEST_VALUE_BYTES:
        raise ConfigError(f"{name} is {size} bytes long: a Worker's variable or secret holds {LONGEST_VALUE_BYTES}")


def check_script(name: str) -> None:
    if not _SCRIPT.fullmatch(name):
        raise ConfigError(f"the Worker's name {name!r} must be 1 to 63 of a-z, 0-9, - and _, no - or _ at its ends")


def check_date(text: str) -> None:
    try:
        if datetime.date.fromisoformat(text).isoformat() == text:
            return
    except ValueError:
        pass
    raise ConfigError(f"the compatibility date is {text!r}: give a day such as 2026-04-01")


def check_flags(flags: Sequence[str]) -> None:
    for flag in flags:
        if not re.fullmatch(r"[a-z0-9_]+", flag):
            raise ConfigError(f"the compatibility flag {flag!r} must be a word such as enable_request_signal")


def check_worker_first(patterns: Sequence[str]) -> None:
    for pattern in patterns:
        if not re.fullmatch(r"!?/[^\s?#]*", pattern):
            raise ConfigError(f"the path {pattern!r} in worker_first must begin with / or !/, such as /v1/*")
    if patterns and all(pattern.startswith("!") for pattern in patterns):
        raise ConfigError("worker_first has exceptions only: name a path without ! too, such as /v1/*")


def check_modules(main: str, modules: Sequence[tuple[str, int]]) -> None:
    """`modules` are names and sizes in bytes."""
    names = [name for name, _ in modules]
    if main not in names:
        raise ConfigError(f"the main module {main!r} is not among the modules: {', '.join(names) or 'there are none'}")
    if "/" in main:
        raise ConfigError(f"the main module {main!r} is in a folder: collect modules from the entry's own folder")
    total = sum(size for _, size in modules)
    if total > LARGEST_SCRIPT_BYTES:
        raise ConfigError(f"the script is {total / 2**20:.1f} MiB: Cloudflare takes 64 MiB")


def check_hostname(host: str) -> None:
    if "*" in host:
        raise ConfigError(f"the domain {host!r} has a *: a custom domain is one host; use a route for many")
    _check_labels(host, f"the domain {host!r}")


def check_pattern(pattern: str) -> None:
    """A route pattern: host and path, `*` only at the very start of the host and the very end of the path."""
    what = f"the route pattern {pattern!r}"
    scheme, separator, rest = pattern.rpartition("://")
    if separator and scheme not in ("http", "https"):
        raise ConfigError(f"{what} begins with {scheme}://: give https://, http:// or no scheme")
    if "?" in rest or "#" in rest:
        raise ConfigError(f"{what} has a query: Cloudflare never matches one; leave out what follows ? and #")
    if re.search(r"\s", rest):
        raise ConfigError(f"{what} has a space in it")
    host, slash, path = rest.partition("/")
    if not slash:
        raise ConfigError(f"{what} has no path: {host}/* catches all of that host")
    if "*" in path[:-1]:
        raise ConfigError(f"{what} has a * inside its path: it may stand only at the very end")
    bare = _HOST_STAR.sub("", host, count=1) if host.startswith("*") else host
    if "*" in bare:
        raise ConfigError(f"{what} has a * inside its host: it may stand only at the very start")
    if ":" in bare:
        raise ConfigError(f"{what} names a port: routes are for ports 80 and 443, without naming them")
    if not bare:
        raise ConfigError(f"{what} names no host: give one of your zone, such as example.com{slash}{path}")
    _check_labels(bare, what)


def _check_labels(host: str, what: str) -> None:
    labels = host.split(".")
    if host != host.lower():
        raise ConfigError(f"{what} has capital letters: write the host in lower case")
    if len(labels) < 2 or len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise ConfigError(f"{what} names no host such as api.example.com; other scripts are written as xn--…")


def pattern_host(pattern: str) -> str:
    """The pattern's host without its leading star."""
    return _HOST_STAR.sub("", pattern.rpartition("://")[2].partition("/")[0], count=1)


def misses_its_own_host(pattern: str) -> bool:
    """Whether it catches hosts below the one it names, and that one not."""
    return pattern.rpartition("://")[2].startswith("*.")


def catches_many(pattern: str) -> bool:
    """Whether it catches more than one host."""
    return pattern.rpartition("://")[2].startswith("*")


def caught(pattern: str) -> list[str]:
    """What a pattern catches and what it surprisingly does not, in words."""
    host, _, path = pattern.rpartition("://")[2].partition("/")
    bare = pattern_host(pattern)
    if host.startswith("*."):
        hosts = f"every host below {bare}, not {bare} itself"
    elif host.startswith("*"):
        hosts = f"{bare} itself and every host whose name ends in {bare}"
    else:
        hosts = f"{bare} alone"
    if path == "*":
        return [f"{hosts}; every path"]
    if not path.endswith("*"):
        return [f"{hosts}; the path /{path} alone, without a query"]
    said = [f"{hosts}; paths that begin with /{path[:-1]}"]
    if path.endswith("/*"):
        said.append(f"not /{path[:-2]} without the slash: {host}/{path[:-2]}* would catch both")
    return said


def pattern_matches(pattern: str, *, host: str, path: str | None) -> bool:
    """Whether a request for this host and path comes to the route; None is any path.  Patterns are taken as checked."""
    rest = pattern.rpartition("://")[2]
    of_host, _, of_path = rest.partition("/")
    if of_host.startswith("*"):
        if not host.endswith(of_host[1:]) or (of_host.startswith("*.") and host == of_host[2:]):
            return False
    elif host != of_host:
        return False
    if path is None:
        return True
    wanted = f"/{of_path}"
    return path.startswith(wanted[:-1]) if wanted.endswith("*") else path == wanted
