from __future__ import annotations

from dataclasses import replace

import pytest

from foretold.deploy import rules
from foretold.deploy.plan import Analytics, Bucket, Domain, Edge, KvNamespace, RateLimit, Route, Secret, Variable
from foretold.errors import ConfigError
from tests.edges import MODULES, ROUTE, edge, script
from tests.fakes.cloudflare_api import ACCOUNT_ID, ZONE_ID


@pytest.mark.parametrize(
    "pattern",
    [
        "example.com/predict*",
        "example.com/*",
        "example.com/",
        "*example.com/*",
        "*.example.com/predict/*",
        "https://ai.example.com/v1/*",
        "xn--bcher-kva.example/*",
        "_under.example.com/a.b-c~d*",
    ],
)
def test_a_pattern_that_cloudflare_takes_is_taken(pattern):
    assert Route(zone_id=ZONE_ID, pattern=pattern).pattern == pattern


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("example.com", r"has no path: example\.com/\*"),
        ("example.com/predict?model=*", "has a query"),
        ("example.com/*/predict", r"\* inside its path"),
        ("example.com/a*b*", r"\* inside its path"),
        ("ai.*.com/*", r"\* inside its host"),
        ("**.example.com/*", r"\* inside its host"),
        ("example.com:8443/*", "names a port"),
        ("ftp://example.com/*", "begins with ftp://"),
        ("Example.com/*", "capital letters"),
        ("/predict*", "names no host"),
        ("*/predict*", "names no host"),
        ("localhost/*", "names no host"),
        ("exa mple.com/*", "has a space"),
        ("bücher.example/*", "xn--"),
        ("-a.example.com/*", "names no host such as"),
    ],
)
def test_a_pattern_that_cloudflare_refuses_or_misreads_is_refused_with_why(pattern, says):
    with pytest.raises(ConfigError, match=says):
        Route(zone_id=ZONE_ID, pattern=pattern)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Route(zone_id="abc", pattern="example.com/*"), "zone id has 3 characters: give the 32 hex digits"),
        (lambda: Route(zone_id="example.com", pattern="example.com/*"), "zone id is 'example.com'"),
        (lambda: Domain(zone_id=ZONE_ID.upper(), hostname="ai.example.com"), "capital letters"),
        (lambda: Domain(zone_id=ZONE_ID, hostname="*.example.com"), "is one host"),
        (lambda: edge(account_id=ACCOUNT_ID[:-1]), "account id has 31 characters"),
        (lambda: edge(route=None), "nobody could reach the Worker"),
        (lambda: Bucket(name="Predictions"), "3 to 63 of a-z"),
        (lambda: Bucket(name="ok-name", expire_days=0), "give 1 to 3650"),
        (lambda: KvNamespace(title=" "), "1 to 512 characters"),
        (lambda: KvNamespace(binding="1ST"), "no digit first"),
        (lambda: RateLimit(period_s=30), "10 s or 60 s only"),
        (lambda: RateLimit(namespace_id="mine"), "whole number above 0"),
        (lambda: RateLimit(requests=0), "give 1 or more"),
        (lambda: Analytics(dataset="a b"), "letters, digits and _"),
        (lambda: Variable(name="A-B", text="x"), "no JavaScript name"),
        (lambda: Secret(name="S", text="x" * 5121), "5121 bytes long"),
        (lambda: script(name="Prediction Worker"), "must be 1 to 63"),
        (lambda: script(compatibility_date="2026-4-1"), "a day such as"),
        (lambda: script(compatibility_date="today"), "a day such as"),
        (lambda: script(main_module="absent.js"), "not among the modules: prediction_worker.js, answer.js"),
        (lambda: script(main_module="src/w.js", modules=(replace(MODULES[0], name="src/w.js"),)), "is in a folder"),
        (lambda: script(ai="ORIGIN_URL"), "two bindings are named 'ORIGIN_URL'"),
    ],
)
def test_what_cloudflare_would_refuse_late_is_refused_when_described(make, says):
    with pytest.raises(ConfigError, match=says):
        make()


def test_a_secret_too_long_is_not_shown():
    with pytest.raises(ConfigError) as told:
        Secret(name="S", text="sk-very-private" * 1000)

    assert "sk-" not in str(told.value)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("example.com/*", ["example.com alone; every path"]),
        ("*.example.com/*", ["every host below example.com, not example.com itself; every path"]),
        ("*example.com/*", ["example.com itself and every host whose name ends in example.com; every path"]),
        (
            "example.com/predict/*",
            [
                "example.com alone; paths that begin with /predict/",
                "not /predict without the slash: example.com/predict* would catch both",
            ],
        ),
    ],
)
def test_what_a_pattern_catches_is_said(pattern, said):
    assert rules.caught(pattern) == said


@pytest.mark.parametrize(
    ("pattern", "host", "path", "matches"),
    [
        ("example.com/predict*", "example.com", "/predict", True),
        ("example.com/predict*", "example.com", "/predict/x", True),
        ("example.com/predict/*", "example.com", "/predict", False),
        ("example.com/predict", "example.com", "/predict/x", False),
        ("*.example.com/*", "example.com", "/", False),
        ("*.example.com/*", "a.b.example.com", "/", True),
        ("*example.com/*", "example.com", "/", True),
        ("*example.com/*", "other-example.com", "/", True),
        ("https://example.com/*", "www.example.com", "/", False),
    ],
)
def test_patterns_match_as_cloudflare_matches_them(pattern, host, path, matches):
    assert rules.pattern_matches(pattern, host=host, path=path) is matches


def test_a_route_is_enough_to_be_reached():
    assert isinstance(edge(route=ROUTE, domain=None, workers_dev=False), Edge)
