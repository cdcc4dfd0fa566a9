"""What a request's head must be, and how one is told without its upgrade."""

from __future__ import annotations

import pytest

from foretold.errors import Refused
from foretold.server.forms import check_form, without_upgrade

HOST = (b"host", b"node.example:80")


def test_a_plain_head_is_taken():
    check_form("1.1", method=b"POST", target=b"/v1/x?a=%C3%A9", headers=[HOST])
    check_form("1.0", method=b"POST", target=b"/v1/x", headers=[HOST, (b"content-length", b"2")])


@pytest.mark.parametrize(
    ("version", "method", "target", "headers", "code"),
    [
        ("2.0", b"GET", b"/", [HOST], "bad_version"),
        ("1.0", b"POST", b"/", [HOST, (b"transfer-encoding", b"chunked")], "bad_framing"),
        ("1.1", b"CONNECT", b"/", [HOST], "bad_target"),
        ("1.1", b"GET", b"/a#b", [HOST], "bad_target"),
        ("1.1", b"GET", b"/\xe9", [HOST], "bad_target"),
        ("1.1", b"GET", b"*", [HOST], "bad_target"),
        ("1.1", b"GET", b"", [HOST], "bad_target"),
        ("1.1", b"GET", b"http://other/", [HOST], "bad_host"),
        ("1.1", b"GET", b"http://node.example:80/", [HOST, HOST], "bad_host"),
        ("1.1", b"GET", b"http://node.example:80/", [], "bad_host"),
        ("1.1", b"GET", b"/" + b"a" * 32_768, [HOST], "target_too_long"),
    ],
)
def test_what_could_be_read_otherwise_is_refused(version, method, target, headers, code):
    with pytest.raises(Refused) as told:
        check_form(version, method=method, target=target, headers=headers)

    assert told.value.code_here == code


def test_a_head_is_the_same_without_its_upgrade():
    headers = [
        HOST,
        (b"connection", b"Upgrade, close, HTTP2-Settings"),
        (b"upgrade", b"h2c"),
        (b"http2-settings", b"AAM"),
        (b"content-length", b"2"),
    ]

    plain = without_upgrade("1.1", method=b"POST", target=b"/v1/x", headers=headers)

    assert plain == (b"POST /v1/x HTTP/1.1\r\nhost: node.example:80\r\nconnection: close\r\ncontent-length: 2\r\n\r\n")


def test_a_connection_that_wished_for_nothing_else_is_not_named():
    plain = without_upgrade("1.1", method=b"GET", target=b"/", headers=[HOST, (b"connection", b"upgrade")])

    assert plain == b"GET / HTTP/1.1\r\nhost: node.example:80\r\n\r\n"
