"""Where a library is: `s3://BUCKET/PREFIX`, `r2://ACCOUNT/BUCKET/PREFIX` or `file:///FOLDER`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from foretold.errors import ConfigError

FORMS = "s3://BUCKET/PREFIX, r2://ACCOUNT/BUCKET/PREFIX or file:///FOLDER"
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_ACCOUNT = re.compile(r"[0-9a-zA-Z]{1,64}")
_PART = re.compile(r"[A-Za-z0-9!_.*'()=+@ -]+")


@dataclass(frozen=True, slots=True)
class Address:
    """`root` is the bucket, or the folder for `file`; `prefix` is inside it, without slashes at its ends."""

    scheme: str
    root: str
    prefix: str = ""
    account: str = ""

    def __str__(self) -> str:
        if self.scheme == "file":
            return Path(self.root).as_uri()
        parts = [part for part in (self.account, self.root, self.prefix) if part]
        return f"{self.scheme}://{'/'.join(parts)}"


def is_address(text: str) -> bool:
    """Whether a text is meant as one, right or wrong."""
    return "://" in text


def address_of(text: str) -> Address:
    """Raises ConfigError."""
    scheme, separator, rest = text.partition("://")
    if not separator or scheme not in ("s3", "r2", "file"):
        raise ConfigError(f"{_shown(text)} is no address of a library: give {FORMS}")
    if scheme == "file":
        if not rest.startswith("/") or rest == "/" or ".." in rest.split("/"):
            raise ConfigError(f"{_shown(text)} names no folder from the root on: give file:///FOLDER")
        return Address("file", rest.rstrip("/"))
    if "@" in rest.split("/")[0]:
        raise ConfigError("an address of a library holds no credentials: they come from outside")
    parts = rest.strip("/").split("/")
    account = parts.pop(0) if scheme == "r2" else ""
    if scheme == "r2" and not _ACCOUNT.fullmatch(account):
        raise ConfigError(f"{_shown(text)} has no account: give r2://ACCOUNT/BUCKET/PREFIX")
    bucket = parts.pop(0) if parts else ""
    if not _BUCKET.fullmatch(bucket):
        raise ConfigError(
            f"{_shown(text)} has no bucket: give {FORMS}; a bucket's name has 3 to 63 small letters, digits, dots, hyphens"
        )
    if any(not _PART.fullmatch(part) or part in (".", "..") for part in parts):
        raise ConfigError(f"{_shown(text)} has a prefix with an empty part, a dot segment or an odd character")
    return Address(scheme, bucket, "/".join(parts), account)


def _shown(text: str) -> str:
    """What was given, without what could be a credential before an @."""
    return repr(re.sub(r"//[^/@]*@", "//…@", text)[:200])
