"""Runs an ASGI application on uvicorn with nothing around it: httptools, uvloop, no log."""

from __future__ import annotations

import json
import socket
from typing import Any

import uvicorn


def serve(app: Any) -> None:
    """Serves until told to stop; prints the address, at a free port, as one JSON line."""
    sock = socket.create_server(("127.0.0.1", 0), backlog=2048)
    host, port = sock.getsockname()
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
    )
    print(json.dumps({"url": f"http://{host}:{port}"}), flush=True)
    uvicorn.Server(config).run(sockets=[sock])
