from __future__ import annotations

import sys

import pytest

from foretold.deploy.asking import client
from foretold.errors import ConfigError


def test_without_the_sdk_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudflare", None)

    with pytest.raises(ConfigError, match=r"pip install 'foretold\[cloudflare\]'"):
        client("token", base_url="http://127.0.0.1:9", retries=0)
