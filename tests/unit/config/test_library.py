"""Settings of models that come from a library."""

from __future__ import annotations

import pytest

from foretold.config import load
from foretold.errors import ConfigError

KEY = f"ed25519:{'A' * 43}="
DIGEST = "0" * 64


def model(more: str, rest: str = "") -> str:
    return f'[models.m]\nsource = "s3://models/team"\n{more}\n{rest}'


@pytest.mark.parametrize(
    "settings",
    [
        model(f'revision = "{DIGEST}"'),
        model("", f'[library]\ntrusted = ["{KEY}"]'),
        model(f'revision = "{DIGEST}"\nmodel = "tiny"', f'[library]\ntrusted = ["{KEY}"]'),
        f'[models.m]\nsource = "r2://0123/models"\nrevision = "{DIGEST}"',
        f'[models.m]\nsource = "file:///srv/models"\nrevision = "{DIGEST}"',
    ],
)
def test_a_model_of_a_library_needs_a_pin_or_a_trusted_key(settings):
    assert load(settings).models[0].name == "m"


def test_a_model_that_nobody_vouches_for_is_an_error_that_says_what_to_set():
    with pytest.raises(ConfigError, match=r"models\.m: who vouches for it\? set `revision`.*or library\.trusted"):
        load(model(""))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (model('revision = "abc"'), "64 hex digits"),
        (model("", '[library]\ntrusted = ["ed25519:AAAA"]'), "give public keys such as"),
        (model("", '[library]\ntrusted = "ed25519:AAAA"'), "give a list of public keys"),
        ('[models.m]\nsource = "https://example.com/x"', 'give "bundled", or the address of a library'),
        ('[models.m]\nsource = "s3://"', 'give "bundled", or the address of a library'),
        ('[models.m]\nsource = "s3://key:secret@bucket/x"', "without credentials"),
        (f'[models.m]\nrevision = "{DIGEST}"', "the bundled model has none"),
        ('[models.m]\nmodel = "tiny"', "the bundled model has none"),
        ('[library]\ncache_limit = "1 kB"', "cache_limit"),
        ('[library]\ncredentials = "mine"', "credentials"),
        ('[library]\nendpoint = "127.0.0.1:8333"', "endpoint"),
    ],
)
def test_what_cannot_be_meant_is_an_error_that_says_what_would_be_right(settings, said):
    with pytest.raises(ConfigError, match=said) as wrong:
        load(settings)

    assert "secret@" not in str(wrong.value)


def test_half_an_access_key_is_an_error(monkeypatch):
    monkeypatch.setenv("HALF", "abc")

    with pytest.raises(ConfigError, match=r"library\.secret_key: an access key has two halves"):
        load('[library]\naccess_key = { env = "HALF" }')
