"""A certificate for this machine's own name, made by `openssl` for as many days as a test wants, past ones too."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

_SETTINGS = """
[ca]
default_ca = own
[own]
new_certs_dir = {folder}
database = {folder}/index
serial = {folder}/serial
default_md = sha256
policy = any
x509_extensions = names
[any]
commonName = supplied
[names]
subjectAltName = {names}
basicConstraints = CA:TRUE
"""


@dataclass(frozen=True)
class Certificate:
    file: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """For a server."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.file, self.key)
        return context


def certificate(folder: Path, *, days: float, names: Sequence[str] = ()) -> Certificate:
    """Of a server on loopback, and of the hosts named, signed by itself; it ends in so many days and began a year before
    that.
    """
    folder.mkdir()
    (folder / "index").touch()
    (folder / "serial").write_text("01")
    settings, key, asked, file = (folder / name for name in ("settings", "key.pem", "asked.pem", "certificate.pem"))
    all_names = ["DNS:localhost", "IP:127.0.0.1", *(f"DNS:{name}" for name in names)]
    settings.write_text(_SETTINGS.format(folder=folder, names=",".join(all_names)))
    ends = datetime.now(UTC) + timedelta(days=days)
    begins = ends - timedelta(days=365)
    _openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-out", str(key))
    _openssl("req", "-new", "-key", str(key), "-subj", "/CN=localhost", "-out", str(asked))
    _openssl(
        *("ca", "-batch", "-selfsign", "-notext", "-config", str(settings), "-keyfile", str(key), "-in", str(asked)),
        *("-startdate", f"{begins:%Y%m%d%H%M%SZ}", "-enddate", f"{ends:%Y%m%d%H%M%SZ}", "-out", str(file)),
    )
    return Certificate(file, key)


def _openssl(*words: str) -> None:
    run = subprocess.run(["openssl", *words], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
