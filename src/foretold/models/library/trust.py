"""Who vouches for a manifest: a digest that the settings pin, or a signature by a key that they trust.

The store itself vouches for nothing.  A signature is made over the digest, with words before it that no other kind of
message begins with.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foretold.config.values import public_key
from foretold.errors import ConfigError, LibraryError, Untrusted
from foretold.models.library.document import manifest_of, revision_of
from foretold.models.manifest import Manifest

INSTALL = "pip install 'foretold[library]'"
_PUBLIC, _PRIVATE = "ed25519:", "ed25519-private:"
_CONTEXT = b"foretold model manifest 1\n"
_KEY_BYTES = 32
_SIGNATURE_BYTES = 64


@dataclass(frozen=True, slots=True)
class Trust:
    """`revision` is the one digest that is accepted; without it, whatever one of the `keys` has signed.

    `wanted` says which of those that are signed is meant.
    """

    revision: str = ""
    keys: tuple[str, ...] = ()
    wanted: str = ""

    @property
    def meant(self) -> str:
        """The only revision that is meant, if there is one."""
        return self.revision or self.wanted

    @property
    def is_any(self) -> bool:
        return bool(self.revision or self.keys)


def accepted(text: bytes, signatures: Mapping[str, bytes], *, name: str, trust: Trust) -> tuple[Manifest, str]:
    """The manifest, and who vouches for it.  `signatures` are those that were found, by the key's text.

    Raises Untrusted unless somebody does, or if it is another model's; LibraryError if it can't be read.
    """
    revision = revision_of(text)
    if trust.revision:
        if revision != trust.revision:
            raise Untrusted(
                f"the manifest of {name!r} there has the digest {revision}, and {trust.revision} is pinned: it was changed"
            )
        by = "its digest is pinned"
    else:
        key = next((k for k in trust.keys if k in signatures and _verifies(k, revision, signatures[k])), None)
        if key is None:
            found = "has signatures that don't verify" if signatures else "is not signed by a key that is trusted here"
            raise Untrusted(
                f"the manifest of {name!r} (revision {revision}) {found}: pin that revision if you know what it is, or"
                " trust its signer's key"
            )
        if trust.wanted and revision != trust.wanted:
            raise Untrusted(f"the manifest of {name!r} there has the digest {revision}, and {trust.wanted} is meant")
        by = f"signed by {key}"
    manifest = manifest_of(text)
    if manifest.name != name:
        raise Untrusted(f"what is there as {name!r} is the manifest of another model, {manifest.name!r}")
    return manifest, by


def key_id(key: str) -> str:
    """A short name of a public key, for the names of its signatures."""
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def new_key(file: Path) -> str:
    """The public half of a new key, whose private half is now in the file.  Raises ConfigError."""
    ed25519 = _ed25519()
    private = ed25519.Ed25519PrivateKey.generate()
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as e:
        raise ConfigError(f"the key can't be written to {file}: {e.strerror}") from None
    with open(descriptor, "wb") as out:
        out.write(_PRIVATE.encode() + base64.b64encode(private.private_bytes_raw()) + b"\n")
        out.flush()
        os.fsync(out.fileno())
    return _public(private)


def signed(revision: str, file: Path) -> tuple[str, bytes]:
    """The public key, and the signature that the private key in the file makes over a revision.  Raises ConfigError."""
    ed25519 = _ed25519()
    try:
        text = file.read_text().strip()
        secret = base64.b64decode(text.removeprefix(_PRIVATE), validate=True)
    except OSError as e:
        raise ConfigError(f"the key {file} can't be read: {e.strerror}") from None
    except (UnicodeDecodeError, binascii.Error):
        secret = b""
    if len(secret) != _KEY_BYTES:
        raise ConfigError(f"{file} holds no private key: `foretold models key FILE` makes one")
    private = ed25519.Ed25519PrivateKey.from_private_bytes(secret)
    return _public(private), private.sign(_CONTEXT + revision.encode())


def trusted_keys(values: Sequence[str]) -> tuple[str, ...]:
    """Keys from a command line.  Raises ConfigError."""
    try:
        return tuple(public_key(value) for value in values)
    except ValueError as e:
        raise ConfigError(f"--trust: {e}") from None


def _verifies(key: str, revision: str, signature: bytes) -> bool:
    ed25519 = _ed25519()
    from cryptography.exceptions import InvalidSignature

    if len(signature) != _SIGNATURE_BYTES:
        return False
    try:
        public = ed25519.Ed25519PublicKey.from_public_bytes(base64.b64decode(key.removeprefix(_PUBLIC)))
        public.verify(signature, _CONTEXT + revision.encode())
    except (InvalidSignature, ValueError):
        return False
    return True


def _public(private: Any) -> str:
    return _PUBLIC + base64.b64encode(private.public_key().public_bytes_raw()).decode()


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise LibraryError(f"signatures need a library: {INSTALL}") from None
    return ed25519
