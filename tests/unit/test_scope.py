from __future__ import annotations

import itertools

import pytest

from foretold.contract.namespace import Credentials, api_key_hash, child_namespace, tenant_namespace
from foretold.errors import BadCredential
from foretold.scope import Scope

SECRET = bytes(32)
OPEN = Scope(SECRET, tenants=None)
KEYED = Scope(SECRET, tenants={api_key_hash("k"): "web"})


def test_answers_live_in_the_last_namespace_of_the_chain_and_the_first_is_the_tenants():
    found = OPEN.namespaces("local:", ("a", "b"))

    tenant = tenant_namespace(SECRET, "local:")
    child = child_namespace(SECRET, tenant, "a")
    assert found.chain == (tenant, child, child_namespace(SECRET, child, "b"))
    assert (found.tenant, found.own) == (found.chain[0], found.chain[2])


def test_no_two_ways_of_narrowing_meet():
    ways = [
        ((), ()),
        (("a",), ()),
        (("a", "b"), ()),
        (("a\nb",), ()),
        (("b", "a"), ()),
        ((), ("a",)),
        ((), ("a", "b")),
        (("ignore a",), ()),
        (("a",), ("b",)),
    ]
    own = [OPEN.namespaces(tenant, *way).own for tenant in ("local:", "credential:x", "tenant:x") for way in ways]

    assert all(a != b for a, b in itertools.combinations(own, 2))


def test_an_empty_credential_is_nobody_and_nobody_is_let_in_where_keys_are_set():
    assert OPEN.tenant(Credentials()) == "local:"
    with pytest.raises(BadCredential):
        KEYED.tenant(Credentials())


def test_a_credential_that_opens_this_node_is_not_the_callers_own():
    assert KEYED.own_credential(Credentials(other="k", other_header="authorization")) is None
    assert KEYED.own_credential(Credentials(gateway="k", other="o", other_header="x-api-key")) == "x-api-key"
    assert OPEN.own_credential(Credentials(other="o", other_header="authorization")) == "authorization"
