"""What lies where, in a library and in this machine's folder of models.

library                                 folder of models
blobs/sha256-HEX                        sha256-HEX                 a file by its digest, read-only
manifests/NAME/REVISION.json            sha256-HEX.lock            held by whoever brings or removes it
manifests/NAME/REVISION.KEY.sig         sha256-HEX.coming .parts   what has come so far, and which parts of it
names/NAME.json                         manifests/REVISION.json …  accepted manifests, with their signatures
  which revision is the newest          origins/DIGEST.json        which revision was brought last from where
                                        split/REVISION/NAME        the parts of a split model, by their own names
"""

from __future__ import annotations

import hashlib

from foretold.models.library.trust import key_id

BLOBS = "blobs/"
NAMES = "names/"
MANIFESTS = "manifests/"


def blob_key(blob: str) -> str:
    return f"{BLOBS}{blob}"


def name_key(name: str) -> str:
    return f"{NAMES}{name}.json"


def manifests_of(name: str) -> str:
    return f"{MANIFESTS}{name}/"


def manifest_key(name: str, revision: str) -> str:
    return f"{manifests_of(name)}{revision}.json"


def signature_key(name: str, revision: str, key: str) -> str:
    return f"{manifests_of(name)}{revision}.{key_id(key)}.sig"


def origin_file(address: str, name: str, pinned: str) -> str:
    """Named after all of them, since an address is no file name; a pinned revision has a file of its own."""
    return hashlib.sha256(f"{address}\n{name}\n{pinned}".encode()).hexdigest()[:32] + ".json"
