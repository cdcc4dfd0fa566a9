"""Settings: typed, with units, and a mistake is told by file, line and nearest name."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretold.config import load, load_file
from foretold.config.example import example, shown
from foretold.config.settings import Config
from foretold.errors import ConfigError

UPSTREAM = '[upstreams.openai]\nurl = "http://127.0.0.1:1/v1"\n'
ROUTE = UPSTREAM + "[[routes]]\nname = 'a'\nmodels = ['*']\nupstream = 'openai'\n"


def uncommented(text: str) -> str:
    """The documented example with every setting and every table in force."""
    return re.sub(r"^# ((\[|\w+ = ).*)$", r"\1", text, flags=re.MULTILINE)


def settings_of(kind: type) -> list[str]:
    return [f.name for f in dataclasses.fields(kind) if "read" in f.metadata]


def test_no_file_is_the_defaults():
    config = load("")

    assert config.server.port == 3673
    assert config.server.host == "127.0.0.1"
    assert config.cache.fresh == 86_400
    assert config.cache.stale_if_error == 604_800


def test_the_documented_example_is_the_defaults():
    assert dataclasses.replace(load(example()), file=None) == load("")


def test_every_line_of_the_documented_example_can_be_uncommented(monkeypatch, tmp_path):
    for name in ("OPENAI_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "sk-test")
    text = uncommented(example())
    for line in (
        'model = "smollm2-135m"',
        "revision = ",
        'path = "/classify"',
        "account_id = ",
        "namespace_id = ",
        "token = ",
        "command = ",
        "callable = ",
        'path = "/srv/answers"',
        "environment = ",
        'memory = "6 GiB"',
        "capabilities = ",
        'languages = ["en", "vi"]',
        "ready = ",
    ):  # a route has an upstream or a model, models or a path; memory has no account, the bundled model no revision,
        # and no program of its own
        text = text.replace(f"\n{line}", f"\n# {line}")

    config = load(text)

    assert config.upstreams[0].key.text == "sk-test"
    assert config.routes[0].upstream == "openai"


def test_every_setting_stands_in_the_example_with_one_sentence():
    text = example()

    for kind in [Config, *(f.metadata.get("table") or f.metadata.get("tables") for f in dataclasses.fields(Config))]:
        for name in settings_of(kind) if kind else ():
            assert re.search(rf"^# {name} = .+  # \w.+", text, flags=re.MULTILINE), name


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[server]\n\nprot = 1", ":3: server.prot: unknown setting; did you mean `port`?"),
        ("[sever]\nport = 1", ":1: sever: unknown setting; did you mean `server`?"),
        ("[cache]\nfresh = 3600", ":2: cache.fresh: is 3600: 3600 of what? give the unit"),
        ('[cache]\nfresh = "soon"', "give a number and a unit"),
        ('[cache]\nfresh = "31d"', "give a duration from"),
        ("[server]\nport = 70000", "give a whole number from 0 to 65535"),
        ("[server]\nport = true", "give a whole number"),
        ('[server]\nport = "1"', "give a whole number"),
        ('[server]\nbody_limit = "20 megs"', "B, kB, MB"),
        ('[server]\nhost = "0.0.0.0"', ":2: server.host: 0.0.0.0 is reachable from the network"),
        ("a =", "is not TOML"),
        (UPSTREAM + 'key = "sk-very-secret"', ":3: upstreams.openai.key: secrets come from outside"),
        (UPSTREAM + 'key = { env = "NOT_SET_ANYWHERE" }', "the environment variable NOT_SET_ANYWHERE is not set"),
        (UPSTREAM + 'key = { file = "/nowhere/at/all" }', "can't be read"),
        ("[upstreams.x]\nretries = 1", ":1: upstreams.x: `url` is missing"),
        ("[upstreams]\nopenai = 3", "give a table"),
        (
            "[[routes]]\nname = 'a'\n[[routes]]\nname = 'b'\nkind = 'nodel'",
            ":5: routes[1].kind: is 'nodel': give one of \"model\"",
        ),
        (
            UPSTREAM + "[[routes]]\nname = 'a'\nmodels = ['*']\nupstream = 'opnai'",
            "there is no upstream 'opnai'; did you mean 'openai'?",
        ),
        (UPSTREAM + "[[routes]]\nname = 'a'\nmodels = ['*']", "set one of the two"),
        (UPSTREAM + "[[routes]]\nname = 'a'\nupstream = 'openai'", "which models does it take?"),
        (UPSTREAM + "[[routes]]\nname = 'a'\nkind = 'json'\nupstream = 'openai'", "needs a path"),
        (UPSTREAM + "[[routes]]\nname = 'a'\nkind = 'get'\npath = '/-/x'\nupstream = 'openai'", "give a path"),
        (
            UPSTREAM
            + "[[routes]]\nname = 'a'\nmodels = ['*']\nupstream = 'openai'\nscope = 'shared'\npass_credential = true",
            ":7: routes[0].scope: everybody would share answers",
        ),
        ("[[api_keys]]\ntenant = 'a'\nsha256 = 'fk_the_key_itself'", ":3: api_keys[0].sha256: give the SHA-256"),
        ("[[tiers]]\nstore = 'disk'\nlimit = '1 GiB'", "tiers are"),
        (UPSTREAM + "[models.openai]\n", "an upstream has the same name"),
        ('[upstreams.a]\nurl = "http://a"\n[upstreams.b]\nurl = "http://b"', "which models go to a and b?"),
        (
            UPSTREAM + "[[routes]]\nname='a'\nmodels=['*']\nupstream='openai'\nfallback=['openai']",
            "can't stand in for itself",
        ),
        (UPSTREAM + "[[routes]]\nname = 'undeclared'\nmodels = ['*']\nupstream = 'openai'", "choose another"),
        ('[cache]\nrecord_limit = "9 MiB"', 'give at most "8 MiB"'),
        (UPSTREAM.replace("/v1", "/v1?x=1"), "query strings are each request's own"),
        (UPSTREAM.replace("/v1", "/v1#part"), "query strings are each request's own"),
        (UPSTREAM.replace("127", "user:fk_the_key@127"), "openai.url: give an address without credentials"),
        ('[upstreams.a]\nurl = "http://:80"', "give a host"),
        ('[upstreams.a]\nurl = "http://h:99999/v1"', "a port from 1 to 65535"),
        ('[upstreams.a]\nurl = "http://h:0"', "a port from 1 to 65535"),
        ('[upstreams.a]\nurl = "http://h:"', "give a host"),
        ('[upstreams.a]\nurl = "http:///v1"', "give an address such as"),
        ('[upstreams.a]\nurl = "http://h h/v1"', "give an address such as"),
        ('[upstreams.a]\nurl = "http://h/v1\\nx"', "give an address such as"),
        ('[upstreams.a]\nurl = "http://h/a/../b"', "without dot segments"),
        ('[upstreams."a\\nb"]\nurl = "http://h"', "without line ends"),
        (UPSTREAM + 'headers = { x-a = "b\\r\\nx-evil: 1" }', "the value of 'x-a' has a line end"),
        (UPSTREAM + 'headers = { x-a = "1", X-A = "2" }', "'x-a' is given twice"),
        (UPSTREAM + 'headers = { "x a" = "1" }', "'x a' is no name of a header"),
        *[
            (UPSTREAM + f'headers = {{ {name} = "3" }}', f"'{name.lower()}' belongs to each connection")
            for name in ("Content-Length", "host", "transfer-encoding", "Connection", "accept-encoding", "te", "expect")
        ],
        (UPSTREAM + 'headers = { range = "bytes=0-1" }', "'range' asks for a part"),
        ('[cache]\nfresh = "500ms"', 'give whole seconds, such as "1 s"'),
        ('[cache]\nfresh = "1.5s"', "give whole seconds"),
        *[
            (ROUTE + f"{which} = ['{name}']", says)
            for which in ("keyed_headers", "inert_headers")
            for name, says in [
                *(
                    (n, f"{which}: '{n.lower()}' says who asks")
                    for n in ("authorization", "X-Api-Key", "api-key", "cf-aig-authorization")
                ),
                *((n, "says who asks") for n in ("proxy-authorization", "cookie", "set-cookie")),
                *((n, "belongs to each connection") for n in ("content-length", "transfer-encoding", "Host", "te")),
                *((n, "belongs to each connection") for n in ("upgrade", "keep-alive", "expect", "content-encoding")),
                *((n, "belongs to each connection") for n in ("connection", "trailer", "accept-encoding")),
                *((n, "asks for a part") for n in ("range", "if-none-match", "If-Modified-Since", "if-range")),
                *((n, "is told to the cache") for n in ("foretold-ttl", "cache-control", "helicone-cache-seed")),
                *((n, "is no name of a header") for n in ("x a", "x:", "")),
            ]
        ],
        (ROUTE + 'keyed_headers = ["x\\n"]', "is no name of a header"),
        (ROUTE + "inert_headers = ['x-goog-api-key']", "outside of the key it would give"),
        (ROUTE + "inert_headers = ['openai-beta']", "'openai-beta' counts on every route"),
        (
            ROUTE + "scope = 'shared'\nkeyed_headers = ['x-goog-api-key']",
            ":8: routes[0].keyed_headers: 'x-goog-api-key'",
        ),
        (ROUTE + "inert_headers = ['x-a']\nkeyed_headers = ['X-A']", "'x-a' stands in keyed_headers too"),
        (ROUTE + "inert_headers = ['x-a', 'X-A']", "'x-a' stands here twice"),
        (
            UPSTREAM
            + "headers = { authorization = 'Bearer x' }\n"
            + ROUTE.removeprefix(UPSTREAM)
            + "pass_credential = true",
            "which would take its place",
        ),
        (ROUTE.replace("'a'", '"a\\nb"'), "without line ends"),
        (ROUTE.replace("'*'", '"a\\u0085"'), "without line ends"),
        (ROUTE.replace("'*'", "''"), "give a list of texts"),
        (
            '[[api_keys]]\ntenant = "a\\nb"\nsha256 = \'' + "1" * 64 + "'",
            ":2: api_keys[0].tenant: is 'a\\nb': give a text",
        ),
        *[
            (UPSTREAM + f"[[routes]]\nname = 'a'\nkind = 'json'\nupstream = 'openai'\npath = '{path}'", says)
            for path, says in [("/a?b", "query strings go along"), ("/a#b", "query strings"), ("/a b", "as it is sent")]
        ],
        ("undeclared = 'nobody'", ":1: undeclared: there is no upstream 'nobody'"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_what_would_be_right(text, says):
    with pytest.raises(ConfigError, match=re.escape(says)) as caught:
        load(text, file=Path("foretold.toml"))

    assert str(caught.value).startswith("foretold.toml")
    assert "secret" not in str(caught.value).replace("secrets come", "")
    assert "fk_the_key" not in str(caught.value)


@given(st.data())
def test_a_typo_in_any_setting_is_an_error_that_names_it(data):
    kinds = {"server": "[server]\n", "cache": "[cache]\n", "logs": "[logs]\n"}
    table = data.draw(st.sampled_from(sorted(kinds)))
    kind = {f.name: f.metadata["table"] for f in dataclasses.fields(Config) if "table" in f.metadata}[table]
    name = data.draw(st.sampled_from(settings_of(kind)))
    at = data.draw(st.integers(0, len(name) - 1))
    typo = name[:at] + "zz" + name[at + 1 :]

    with pytest.raises(ConfigError) as caught:
        load(f"# a comment\n{kinds[table]}{typo} = 1\n", file=Path("foretold.toml"))

    assert str(caught.value).startswith(f"foretold.toml:3: {table}.{typo}: unknown setting")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1h", 3600), ("90 s", 90), ("1.5h", 5400), ("2d", 172_800), ("0s", 0), ("5min", 300), ("forever", 2_592_000)],
)
def test_lifetimes_carry_their_unit(text, seconds):
    assert load(f'[cache]\nfresh = "{text}"').cache.fresh == seconds


@pytest.mark.parametrize(("text", "count"), [("1 MiB", 2**20), ("1MB", 10**6), ("2 GiB", 2**31), ("1024 KiB", 2**20)])
def test_sizes_carry_their_unit(text, count):
    assert load(f'[server]\nbody_limit = "{text}"').server.body_limit == count


def test_secrets_come_from_the_environment_or_a_file_and_are_never_shown(monkeypatch, tmp_path):
    monkeypatch.setenv("A_KEY", "sk-one")
    (tmp_path / "key").write_text("sk-two\n")
    text = UPSTREAM + f'key = {{ env = "A_KEY" }}\nheaders = {{ x-key = {{ file = "{tmp_path / "key"}" }} }}\n'

    config = load(text)

    assert config.upstreams[0].key.text == "sk-one"
    assert config.upstreams[0].headers[0][1].text == "sk-two"
    for told in (repr(config), str(shown(config))):
        assert "sk-one" not in told
        assert "sk-two" not in told


def test_a_file_that_is_not_there_or_is_not_text_is_said_so(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        load_file(tmp_path / "absent.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_file(tmp_path / "binary.toml")


@pytest.mark.parametrize(("kept", "says"), [(b"", "is empty"), (b"one\ntwo", "has a line end"), (b"\xff", "not UTF-8")])
def test_a_secret_that_can_be_no_header_is_refused_and_not_shown(tmp_path, kept, says):
    (tmp_path / "key").write_bytes(kept)

    with pytest.raises(ConfigError, match=says) as caught:
        load(UPSTREAM + f'key = {{ file = "{tmp_path / "key"}" }}\n')

    assert "two" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["http://h", "https://a-b.example:8443/v1/", "http://[::1]:80/v1", "http://10.0.0.1/%7Ea"]
)
def test_an_address_is_scheme_host_port_and_path(url):
    assert load(f'[upstreams.a]\nurl = "{url}"').upstreams[0].url == url


def test_quantities_of_seconds_are_exact():
    assert load('[cache]\nfresh = "1.1h"').cache.fresh == 3960
    assert load('[cache]\nfresh = "2000ms"').cache.fresh == 2
