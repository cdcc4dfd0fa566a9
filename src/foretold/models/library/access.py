"""How a store is reached: endpoint, region and credentials, from the settings, else from the usual variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from foretold.config.settings import Library
from foretold.errors import ConfigError
from foretold.models.library.address import Address

_R2 = "https://{account}.r2.cloudflarestorage.com"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a store may keep us waiting, and how often it is asked again.  `read_s` is for one piece, not a file."""

    connect_s: float = 10.0
    read_s: float = 30.0
    retries: int = 4
    retry_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Access:
    """`endpoint` is empty for AWS itself and for a folder; `kind` is keys, machine or none."""

    kind: str = "none"
    endpoint: str = ""
    region: str = ""
    access_key: str = ""
    secret_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)


def access_to(address: Address, library: Library, environ: Mapping[str, str]) -> Access:
    """Raises ConfigError where credentials are wanted and there are none."""
    if address.scheme == "file":
        return Access()
    if address.scheme == "r2":
        endpoint, region = library.r2_endpoint or _R2.format(account=address.account), "auto"
    else:
        endpoint = library.endpoint or environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or ""
        region = library.region or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    if library.credentials != "keys":
        return Access(library.credentials, endpoint, region)
    if library.access_key is not None and library.secret_key is not None:
        return Access("keys", endpoint, region, library.access_key.text, library.secret_key.text)
    access_key, secret_key = environ.get("AWS_ACCESS_KEY_ID", ""), environ.get("AWS_SECRET_ACCESS_KEY", "")
    if not access_key or not secret_key:
        raise ConfigError(
            f"{address} is asked with access keys, and there are none: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY,"
            ' or `access_key` and `secret_key` in [library]; `credentials = "none"` for a public store'
        )
    return Access("keys", endpoint, region, access_key, secret_key, environ.get("AWS_SESSION_TOKEN", ""))
