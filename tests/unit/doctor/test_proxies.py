from __future__ import annotations

import pytest

from foretold.doctor.proxies import proxies
from tests.worlds import text, verdict, world_of

SETTINGS = '[upstreams.far]\nurl = "https://api.example/v1"\n[upstreams.near]\nurl = "http://127.0.0.1:9/v1"\n'
ROUTED = SETTINGS + '[[routes]]\nname = "a"\nmodels = ["*"]\nupstream = "far"\n'


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def test_the_proxy_of_each_upstream_is_told_without_its_password(tmp_path, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://me:password@proxy.example:3128")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")

    told = text(list(proxies(world_of(tmp_path, ROUTED))))

    assert "far: through http://proxy.example:3128 (HTTPS_PROXY)" in told
    assert "near: directly" in told
    assert "password" not in told


def test_a_proxy_that_is_no_http_proxy_is_a_fault(tmp_path, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "socks5://proxy.example:1080")

    assert verdict(list(proxies(world_of(tmp_path, ROUTED)))) == "fault"


def test_certificates_that_are_not_where_the_variable_says_are_a_fault(tmp_path):
    world = world_of(tmp_path, ROUTED, environ={"SSL_CERT_FILE": str(tmp_path / "none.pem")})

    notes = list(proxies(world))

    assert verdict(notes) == "fault"
    assert "SSL_CERT_FILE" in text(notes)


@pytest.mark.parametrize("name", ["ALL_PROXY", "REQUESTS_CA_BUNDLE"])
def test_variables_of_other_programs_that_are_not_read_here_are_a_warning(tmp_path, name):
    world = world_of(tmp_path, ROUTED, environ={name: "/some/where"})

    notes = list(proxies(world))

    assert verdict(notes) == "warning"
    assert f"{name} is set, and is not read here" in text(notes)


def test_without_upstreams_there_is_nothing_to_go_through(tmp_path):
    assert verdict(list(proxies(world_of(tmp_path)))) == "skipped"
