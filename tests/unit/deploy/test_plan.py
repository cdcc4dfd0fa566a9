from __future__ import annotations

from dataclasses import replace

import pytest

from foretold.deploy.plan import Secret, Variable, version_tag, wire_bindings
from tests.edges import MODULES, edge, script


def test_a_description_has_the_same_tag_whenever_it_is_made():
    assert version_tag(edge()) == version_tag(edge())
    assert len(version_tag(edge()).encode()) <= 100


@pytest.mark.parametrize(
    "changed",
    [
        script(modules=(MODULES[0], replace(MODULES[1], content=b"other"))),
        script(modules=(MODULES[0], replace(MODULES[1], name="other.js"))),
        script(compatibility_date="2026-04-02"),
        script(compatibility_flags=()),
        script(ai=None),
        script(logs=False),
        script(bucket=None),
        script(variables=(Variable(name="ORIGIN_URL", text="https://other.example"),)),
        script(secrets=(Secret(name="UPSTREAM_KEY", text="another"),)),
        script(secrets=()),
    ],
)
def test_whatever_goes_into_an_upload_changes_the_tag(changed):
    assert version_tag(edge(with_script=changed)) != version_tag(edge())


def test_the_order_of_files_and_variables_changes_nothing():
    a, b = Variable(name="A", text="1"), Variable(name="B", text="2")
    one = edge(with_script=script(variables=(a, b)))
    other = edge(with_script=script(variables=(b, a), modules=tuple(reversed(MODULES))))

    assert version_tag(one) == version_tag(other)


def test_where_requests_come_from_is_no_part_of_the_upload():
    assert version_tag(edge(workers_dev=True)) == version_tag(edge())


def test_equal_secrets_in_two_accounts_have_two_tags():
    other = edge(account_id="f" * 32)

    assert version_tag(edge()).rsplit("-", 1)[0] == version_tag(other).rsplit("-", 1)[0]
    assert version_tag(edge()) != version_tag(other)


def test_nothing_shown_of_a_description_shows_a_secret():
    assert "sk-of-the-upstream" not in repr(edge())


def test_bindings_are_sorted_and_carry_the_namespace_given():
    found = wire_bindings(script(), kv_namespace_id="0f2ac74b498b48028cb68387c421e279")

    assert [b["name"] for b in found] == sorted(b["name"] for b in found)
    assert next(b for b in found if b["type"] == "kv_namespace")["namespace_id"] == "0f2ac74b498b48028cb68387c421e279"
