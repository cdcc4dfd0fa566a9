"""A program that speaks OpenAI's protocol, as any may: on a port or a unix socket.  It writes down what it was asked.

A question with `crash` or `hang` in it gets its first words, and then the end of the process, or nothing more.
"""

import json
import os
import resource
import socket
import socketserver
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path

here = Path(os.environ["WORLD"])
with (here / "pids").open("a") as pids:
    pids.write(f"{os.getpid()}\n")
(here / "environment.json").write_text(json.dumps(dict(os.environ)))
(here / "limit").write_text(str(resource.getrlimit(resource.RLIMIT_DATA)[0]))
mood = (here / "mood").read_text() if (here / "mood").exists() else ""
if mood == "refuses":
    print("loading the weights", file=sys.stderr)
    print("the weights are of no kind that is known", file=sys.stderr)
    sys.exit(7)
if mood == "begets":
    begotten = subprocess.Popen(["sleep", "600"])
    with (here / "pids").open("a") as pids:
        pids.write(f"{begotten.pid}\n")


class Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        is_ready = self.path == "/ready" and mood != "never-ready"
        self.send_response(200 if is_ready else 503)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["content-length"]))
        with (here / "asked").open("ab") as log:
            log.write(asked + b"\n")
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self._say({"role": "assistant", "content": "I am "}, None)
        if b"crash" in asked:
            os._exit(3)
        if b"hang" in asked:
            time.sleep(600)
        self._say({"content": "a program"}, None)
        self._say({}, "stop")
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def _say(self, delta: dict, finish: str | None) -> None:
        chunk = {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "there",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        }
        self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        self.wfile.flush()

    def address_string(self) -> str:
        return ""

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64


class UnixServer(Server):
    address_family = socket.AF_UNIX


way, place = sys.argv[1:]
server = Server(("127.0.0.1", int(place)), Answering) if way == "--port" else UnixServer(place, Answering)
server.serve_forever()
