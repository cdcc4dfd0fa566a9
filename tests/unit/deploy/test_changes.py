from __future__ import annotations

from dataclasses import replace

import pytest

from foretold.deploy.changes import Permits, changes, next_bindings, removals
from foretold.deploy.plan import Domain, lifecycle_rules, version_tag, wire_bindings
from foretold.deploy.state import FoundBucket, FoundDomain, FoundRoute, FoundScript, State
from tests.edges import ROUTE, edge, script
from tests.fakes.cloudflare_api import ZONE_ID, ZONE_NAME

KV_ID = "0f2ac74b498b48028cb68387c421e279"


def _found_script(**more) -> FoundScript:
    """Ours, as it is after an apply."""
    bindings = tuple({k: v for k, v in b.items() if b["type"] != "secret_text" or k != "text"} for b in _wired())
    given = {
        "version_tag": version_tag(edge()),
        "tags": ("foretold",),
        "compatibility_date": "2026-04-01",
        "bindings": bindings,
        "on_workers_dev": False,
        "has_previews": False,
    }
    return FoundScript(**{**given, **more})


def _wired():
    return wire_bindings(script(), kv_namespace_id=KV_ID)


def _state(**more) -> State:
    """All that edge() describes."""
    given = {
        "kv_namespace_id": KV_ID,
        "buckets": tuple(FoundBucket(name=b.name, lifecycle=lifecycle_rules(b)) for b in script().buckets),
        "script": _found_script(),
        "routes": (FoundRoute(id="1", zone_id=ZONE_ID, pattern=ROUTE.pattern, script="prediction-worker"),),
        "zones": {ZONE_ID: ZONE_NAME},
    }
    return State(**{**given, **more})


def _steps(state: State, permits: Permits | None = None, of=None) -> list[tuple[str, str]]:
    return [(step.does, step.kind) for step in changes(of or edge(), state, permits or Permits()).steps]


def test_an_account_that_has_everything_needs_nothing():
    assert _steps(_state()) == []


def test_stores_come_before_the_script_and_ways_to_it_come_last():
    assert _steps(State()) == [
        ("create", "kv"),
        ("create", "bucket"),
        ("change", "lifecycle"),
        ("create", "bucket"),
        ("change", "lifecycle"),
        ("upload", "script"),
        ("change", "workers.dev"),
        ("create", "route"),
    ]


def test_what_the_api_tells_beyond_what_was_sent_is_no_difference():
    told = tuple({**b, "environment": "production", "jurisdiction": None} for b in _found_script().bindings)
    buckets = tuple(replace(b, lifecycle=[{**rule, "told": 1} for rule in b.lifecycle]) for b in _state().buckets)

    assert _steps(_state(script=_found_script(bindings=told), buckets=buckets)) == []


def test_numbers_that_come_back_as_fractions_are_no_difference():
    told = tuple(
        {**b, "simple": {"limit": 100.0, "period": 60}} if b["type"] == "ratelimit" else b
        for b in _found_script().bindings
    )

    assert _steps(_state(script=_found_script(bindings=told))) == []


def test_a_namespace_made_anew_is_bound_anew():
    seen = changes(edge(), _state(kv_namespace_id="f" * 32), Permits())

    assert [step.why for step in seen.steps] == [("binding PREDICTION_CACHE is another",)]


def test_previews_that_somebody_turned_on_are_turned_off():
    assert _steps(_state(script=_found_script(has_previews=True))) == [("change", "workers.dev")]


def test_secrets_of_others_are_inherited_and_nothing_else_is():
    theirs = ({"type": "secret_text", "name": "THEIRS"}, {"type": "plain_text", "name": "OLD", "text": "x"})
    state = _state(script=_found_script(bindings=_found_script().bindings + theirs))

    seen = changes(edge(), state, Permits())

    assert seen.inherited == ("THEIRS",)
    assert [step.why for step in seen.steps] == [("binding OLD goes",)]
    assert next_bindings(edge(), seen.inherited, kv_namespace_id=KV_ID)[-1] == {"type": "inherit", "name": "THEIRS"}


def test_a_secret_that_the_worker_needs_is_missed_unless_it_is_described_or_inherited():
    def missed(needs, state):
        notes = changes(edge(with_script=script(needs=needs)), state, Permits()).notes
        return [note for note in notes if "answers nothing without it" in note]

    by_hand = _found_script(bindings=(*_found_script().bindings, {"type": "secret_text", "name": "FORETOLD_SECRET"}))

    assert len(missed(("FORETOLD_SECRET",), _state())) == 1
    assert missed(("UPSTREAM_KEY",), _state()) == []
    assert missed(("FORETOLD_SECRET",), _state(script=by_hand)) == []


def test_a_refusal_is_told_for_each_thing_of_somebody_else():
    wanted = edge(domain=Domain(zone_id=ZONE_ID, hostname="ai.example.com"), workers_dev=True)
    state = _state(
        script=_found_script(tags=()),
        routes=(replace(_state().routes[0], script="theirs"),),
        domains=(FoundDomain(id="1", hostname="ai.example.com", script="theirs"),),
    )

    refused = changes(wanted, state, Permits()).refused

    assert [next(flag for flag in ("--replace-script", "--take-route", "--take-domain", "workers.dev") if flag in said)
            for said in refused] == ["--replace-script", "--take-route", "--take-domain", "workers.dev"]  # fmt: skip


@pytest.mark.parametrize("host", ["notexample.com", "example.org"])
def test_a_zone_has_its_own_hosts_only(host):
    wanted = edge(route=None, domain=Domain(zone_id=ZONE_ID, hostname=host))

    assert f"{host} is not in the zone example.com" in changes(wanted, _state(), Permits()).refused[0]


def test_ways_go_before_the_script_and_stores_go_last():
    steps = removals(edge(), _state(), keep_data=False).steps

    assert [step.kind for step in steps] == ["route", "script", "kv", "bucket", "bucket"]


def test_data_can_be_kept_and_what_others_use_is_kept():
    kept = removals(edge(), _state(), keep_data=True)
    used = removals(edge(), _state(kv_users=("theirs",)), keep_data=False)

    assert [step.kind for step in kept.steps] == ["route", "script"]
    assert [step.kind for step in used.steps] == ["route", "script", "bucket", "bucket"]
    assert used.notes == ("the KV namespace PredictionCache stays: theirs uses it too",)


def test_nothing_is_removed_around_a_worker_of_somebody_else():
    seen = removals(edge(), _state(script=_found_script(tags=())), keep_data=False)

    assert seen.steps == ()
    assert len(seen.refused) == 1
