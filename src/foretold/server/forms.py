"""The one form of a request: what a strict parser lets through and another server may still read in another way."""

from __future__ import annotations

from collections.abc import Iterable

from foretold.errors import Ambiguous, Refused, TooLarge

LONGEST_TARGET_BYTES = 32 * 1024

Headers = Iterable[tuple[bytes, bytes]]

_OF_AN_UPGRADE = frozenset({b"upgrade", b"http2-settings"})


def check_form(version: str, *, method: bytes, target: bytes, headers: Headers) -> None:
    """Raises Refused for another version, a target that is no path of this node, and chunks in HTTP/1.0."""
    if version != "1.1":
        _check_version(version, headers)
    if target[:1] != b"/":
        _check_absolute(target, headers)
    if method == b"CONNECT":
        raise Refused("this node is no proxy: it takes no CONNECT", code="bad_target")
    if b"#" in target or not target.isascii():
        raise Refused("the target has a fragment or a character that is not ASCII: encode it", code="bad_target")
    if len(target) > LONGEST_TARGET_BYTES:
        raise TooLarge(f"the target is longer than {LONGEST_TARGET_BYTES} bytes", code="target_too_long", status=414)


def without_upgrade(version: str, *, method: bytes, target: bytes, headers: Headers) -> bytes:
    """The head of the same request, its wish to change the protocol left out."""
    lines = [b"%b %b HTTP/%b" % (method, target, version.encode())]
    for name, value in headers:
        if name == b"connection":
            value = b", ".join(t for t in map(bytes.strip, value.split(b",")) if t.lower() not in _OF_AN_UPGRADE)
        if name not in _OF_AN_UPGRADE and (value or name != b"connection"):
            lines.append(b"%b: %b" % (name, value))
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _check_version(version: str, headers: Headers) -> None:
    if version != "1.0":
        raise Refused(f"this is HTTP/{version}: send HTTP/1.1", code="bad_version")
    if any(name == b"transfer-encoding" for name, _ in headers):
        raise Ambiguous("HTTP/1.0 has no transfer-encoding: send a content-length", code="bad_framing")


def _check_absolute(target: bytes, headers: Headers) -> None:
    """A whole URL may stand for its path if it names the Host that the request names too."""
    scheme, _, rest = target.partition(b"://")
    authority, slash, _ = rest.partition(b"/")
    if scheme != b"http" or not slash:
        raise Refused("the target is no path: send `GET /path HTTP/1.1`", code="bad_target")
    if [value.lower() for name, value in headers if name == b"host"] != [authority.lower()]:
        raise Ambiguous("the target names another host than Host does", code="bad_host")
