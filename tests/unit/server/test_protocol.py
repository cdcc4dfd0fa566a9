"""What we use of the pinned server that it doesn't promise: an upgrade that changes it fails here, by name."""

from __future__ import annotations

import inspect
from importlib import metadata

import uvicorn
from uvicorn.protocols.http import flow_control
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from foretold.server.closing import CloseDelimited
from foretold.server.peek import Peek

PINNED = "0.54.0"


def test_the_server_is_the_one_that_was_read():
    assert metadata.version("uvicorn") == PINNED, "read httptools_impl.py again, then change this line"


EXTENDED = (
    "connection_made",
    "connection_lost",
    "data_received",
    "eof_received",
    "on_message_begin",
    "on_headers_complete",
    "on_body",
    "on_message_complete",
    "on_response_complete",
    "_start_asgi_task",
    "shutdown",
)
SET = (
    "connections",
    "cycle",
    "expect_100_continue",
    "flow",
    "headers",
    "limit_concurrency",
    "loop",
    "parser",
    "pipeline",
    "scope",
    "server_state",
    "timeout_keep_alive",
    "timeout_keep_alive_task",
    "transport",
)


def test_every_callback_we_extend_is_one_the_server_has():
    for name in EXTENDED:
        assert name in vars(HttpToolsProtocol), f"HttpToolsProtocol.{name} is gone"
        ours = inspect.signature(getattr(Peek, name))
        theirs = inspect.signature(getattr(HttpToolsProtocol, name))
        assert list(ours.parameters) == list(theirs.parameters), f"HttpToolsProtocol.{name} takes other arguments"


def test_we_extend_nothing_else_of_the_server():
    ours = {name for kind in Peek.__mro__ if kind.__module__.startswith("foretold.") for name in vars(kind)}
    theirs = {name for name, value in vars(HttpToolsProtocol).items() if inspect.isfunction(value)}

    assert ours & theirs == {"__init__", *EXTENDED}


def test_every_attribute_we_read_is_set_by_the_server():
    source = inspect.getsource(HttpToolsProtocol.__init__)

    for name in SET:
        assert f"self.{name}" in source, f"HttpToolsProtocol.{name} is gone"
    assert "self.url = " in inspect.getsource(HttpToolsProtocol.on_message_begin)


def test_every_method_we_call_is_one_the_server_has():
    for name in ("_unset_keepalive_if_required", "timeout_keep_alive_handler"):
        assert name in vars(HttpToolsProtocol), f"HttpToolsProtocol.{name} is gone"
    assert "self.write_paused" in inspect.getsource(flow_control.FlowControl.__init__)


def test_every_attribute_of_a_running_request_that_we_use_is_set_by_the_server():
    source = inspect.getsource(RequestResponseCycle.__init__)

    for name in (
        "chunked_encoding",
        "disconnected",
        "expected_content_length",
        "keep_alive",
        "message_event",
        "response_complete",
        "response_started",
        "scope",
        "transport",
    ):
        assert f"self.{name}" in source, f"RequestResponseCycle.{name} is gone"
    for name in ("run_asgi", "send"):
        ours, theirs = (inspect.signature(getattr(kind, name)) for kind in (CloseDelimited, RequestResponseCycle))
        assert list(ours.parameters) == list(theirs.parameters), f"RequestResponseCycle.{name} takes other arguments"


def test_the_newest_waiting_request_is_at_the_left_of_the_servers_queue():
    """Where one whose body breaks is taken out again."""
    assert "self.pipeline.appendleft(" in inspect.getsource(HttpToolsProtocol.on_headers_complete)


def test_the_servers_own_limit_of_connections_is_off_where_none_is_given():
    """The crowd has its own, with an answer in JSON."""
    assert "self.limit_concurrency is not None" in inspect.getsource(HttpToolsProtocol.on_headers_complete)


def test_the_servers_own_handling_of_signals_can_still_be_replaced():
    assert "capture_signals" in vars(uvicorn.Server)
    assert "startup" in vars(uvicorn.Server)
