"""What we use of the pinned server that it doesn't promise: an upgrade that changes it fails here, by name."""

from __future__ import annotations

import inspect
from importlib import metadata

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from foretold.server.protocol import LimitedProtocol

PINNED = "0.54.0"


def test_the_server_is_the_one_that_was_read():
    assert metadata.version("uvicorn") == PINNED, "read httptools_impl.py again, then change this line"


def test_every_callback_we_extend_is_one_the_server_has():
    for name in ("connection_made", "connection_lost", "data_received", "on_headers_complete", "on_message_complete"):
        assert name in vars(HttpToolsProtocol), f"HttpToolsProtocol.{name} is gone"
        ours = inspect.signature(getattr(LimitedProtocol, name))
        theirs = inspect.signature(getattr(HttpToolsProtocol, name))
        assert list(ours.parameters) == list(theirs.parameters), f"HttpToolsProtocol.{name} takes other arguments"


def test_every_attribute_we_read_is_set_by_the_server():
    source = inspect.getsource(HttpToolsProtocol.__init__)

    for name in ("loop", "transport"):
        assert f"self.{name}" in source, f"HttpToolsProtocol.{name} is gone"


def test_the_servers_own_handling_of_signals_can_still_be_replaced():
    assert "capture_signals" in vars(uvicorn.Server)
    assert "startup" in vars(uvicorn.Server)
