"""What we use of the HTTP client that it doesn't promise: an upgrade that changes it fails here, by name."""

from __future__ import annotations

import inspect
from importlib import metadata

import aiohttp
from aiohttp.client_proto import ResponseHandler

from foretold.origins.connections import OneAnswerEach, Wire

PINNED = "3.14.5"


def test_the_client_is_the_one_that_was_read():
    assert metadata.version("aiohttp") == PINNED, "read client_proto.py and connector.py again, then change this line"


def test_every_method_we_extend_is_one_the_client_has():
    for name in ("data_received", "is_connected", "set_response_params"):
        assert name in vars(ResponseHandler), f"ResponseHandler.{name} is gone"
    theirs = inspect.signature(aiohttp.BaseConnector._release)
    assert list(inspect.signature(OneAnswerEach._release).parameters) == list(theirs.parameters)


def test_every_connection_the_client_makes_is_one_of_ours():
    source = inspect.getsource(aiohttp.BaseConnector) + inspect.getsource(aiohttp.TCPConnector)

    assert "self._factory = functools.partial(ResponseHandler, loop=loop)" in source
    assert source.count("ResponseHandler(") == 0


def test_the_client_asks_whether_a_kept_connection_is_connected_before_each_use():
    assert "proto.is_connected()" in inspect.getsource(aiohttp.BaseConnector._get)


def test_the_client_says_so_before_it_sends_a_question():
    source = inspect.getsource(aiohttp.ClientSession._request)

    assert 0 < source.index("conn.protocol.set_response_params(") < source.index("await req.send(conn)")


def test_every_attribute_we_read_is_set_by_the_client():
    source = inspect.getsource(ResponseHandler)

    for name in ("_parser", "transport"):
        assert f"self.{name}" in source, f"ResponseHandler.{name} is gone"
    assert "self._parser.feed_eof()" in source
    assert isinstance(Wire.should_close, property)


def test_every_connection_is_made_where_we_make_it():
    source = inspect.getsource(aiohttp.TCPConnector)
    theirs = inspect.signature(aiohttp.TCPConnector._wrap_create_connection)

    assert list(inspect.signature(OneAnswerEach._wrap_create_connection).parameters) == list(theirs.parameters)
    assert (
        source.count("self._loop.create_connection(") == 2
    )  # in `_wrap_create_connection`, and for a proxy of TLS in TLS
    assert "sock = await aiohappyeyeballs.start_connection(" in inspect.getsource(
        aiohttp.TCPConnector._wrap_create_connection
    )
