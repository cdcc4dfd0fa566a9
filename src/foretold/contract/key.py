"""From a query to its key: 64 hex digits, equal on every node and edge (rule K1)."""

from __future__ import annotations

import hashlib

from foretold.contract.canonical import canonical
from foretold.contract.query import Query

VERSION = "foretold/1"


def key_of(query: Query) -> str:
    members = [
        VERSION,
        query.namespace,
        query.operation,
        query.model,
        query.revision,
        query.sample,
        query.query,
        [list(pair) for pair in query.headers],
        query.form,
        query.input,
    ]
    return hashlib.sha256(canonical(members)).hexdigest()


def record_name(namespace: str, key: str) -> str:
    """Where object stores and KV keep the record (rule R4)."""
    return f"{VERSION}/{namespace}/{key}"
