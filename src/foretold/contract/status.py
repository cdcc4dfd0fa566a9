"""What an answer says about the cache: Cache-Status (RFC 9211) and its companions (rules S1 and S2)."""

from __future__ import annotations

import msgspec

NODE, EDGE = "Foretold", "Foretold-Edge"
OTHER_REVISION = "other-revision"


class CacheStatus(msgspec.Struct, frozen=True):
    """One member of the list.  Either a hit with its ttl, or forwarded for a reason of RFC 9211 section 2.2.

    `other_revision` says that the caller believes in another revision than answers (rule U1): no other detail is told
    then.
    """

    cache: str = NODE
    hit: bool = False
    ttl_s: int | None = None
    forwarded: str | None = None
    stored: bool = False
    collapsed: bool = False
    key: str | None = None
    detail: str | None = None
    other_revision: bool = False

    def __str__(self) -> str:
        parts = [self.cache]
        if self.hit:
            parts.append("hit")
        if self.forwarded is not None:
            parts.append(f"fwd={self.forwarded}")
        if self.ttl_s is not None:
            parts.append(f"ttl={self.ttl_s}")
        if self.stored:
            parts.append("stored")
        if self.collapsed:
            parts.append("collapsed")
        if self.key is not None:
            parts.append(f'key="{self.key}"')
        detail = OTHER_REVISION if self.other_revision else self.detail
        if detail is not None:
            parts.append(f"detail={_token_or_string(detail)}")
        return "; ".join(parts)


def listed(before: str | None, ours: CacheStatus) -> str:
    """Our member at the end of the list that came from the origin's side."""
    return f"{before}, {ours}" if before else str(ours)


def etag(body_sha256: str, shape: str) -> str:
    """A weak validator of one shape of one body."""
    return f'W/"{body_sha256[:16]}-{shape}"'


def etag_matches(if_none_match: str, tag: str) -> bool:
    """Weak comparison of a list of validators, or `*` (RFC 9110 section 13.1.2)."""
    return if_none_match.strip(" \t") == "*" or any(
        part.strip(" \t").removeprefix("W/") == tag.removeprefix("W/") for part in if_none_match.split(",")
    )


def client_cache_control(method: str, *, hit: bool) -> str:
    """What a client's own cache may do: revalidate hits of safe methods, keep nothing else."""
    return "private, no-cache" if hit and method in ("GET", "HEAD", "QUERY") else "no-store"


def may_answer_304(method: str) -> bool:
    return method in ("GET", "HEAD", "QUERY")


def _token_or_string(text: str) -> str:
    """A structured-field token where the text is one, else a string (RFC 8941 section 3.3)."""
    if text and text[0].isalpha() and all(c.isalnum() or c in "!#$%&'*+-.^_`|~:/" for c in text) and text.isascii():
        return text
    printable = "".join(c if " " <= c <= "~" else "?" for c in text)
    return '"' + printable.replace("\\", "\\\\").replace('"', '\\"') + '"'
