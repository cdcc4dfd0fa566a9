"""A stand-in for the engine's program that answers: a stream that says which process made it.

A question with `hold` in it gets its first words and no end; one with `slowly` gets its end when the file `go` lies
beside the weights.  Each load is written down there, and whether more answers are made at once than there are slots.
Where the file `tells-weights` lies there, it says these instead of its name; where `refuses` lies there and names them,
it does not load.
"""

import contextlib
import json
import os
import socketserver
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path

launch = json.loads(sys.stdin.buffer.readline())
here = Path(launch["weights"]).parent
with (here / "loads").open("a") as loads:
    loads.write(f"{launch['alias']} {os.getpid()} {launch['residents']}\n")
weights = Path(launch["weights"]).name
words = weights if (here / "tells-weights").exists() else launch["alias"]
if (here / "refuses").exists() and (here / "refuses").read_text() == weights:
    print("0.00.001.000 E gguf: its tensors are of no kind that is known", file=sys.stderr)
    print(json.dumps({"failed": "Failed to init server"}), flush=True)
    sys.exit(0)
slots = threading.Semaphore(launch["parallel"])


@contextlib.contextmanager
def slot():
    is_free = slots.acquire(blocking=False)
    if not is_free:
        (here / "too-many").touch()
    try:
        yield
    finally:
        if is_free:
            slots.release()


class Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["content-length"]))
        if self.headers["authorization"] != f"Bearer {launch['api_key']}":
            self.send_error(401)
            return
        with contextlib.suppress(OSError):  # the caller left
            self._answer(asked)

    def _answer(self, asked: bytes) -> None:
        # Given back before the end is told: whoever hears it may send the next question at once.
        with slot():
            self._begin(asked)
        self._send(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True

    def _begin(self, asked: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self._say(f"I am {words}")
        if b"hold" in asked:
            self.rfile.read(1)
            return
        while b"slowly" in asked and not (here / "go").exists():
            time.sleep(0.01)
        self._say(None, "stop")

    def _say(self, text: str | None, finish: str | None = None) -> None:
        delta = {} if text is None else {"content": text}
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        self._send(b"data: " + json.dumps({"id": "chatcmpl-x", "choices": [choice]}).encode() + b"\n\n")

    def _send(self, event: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
        self.wfile.flush()

    def address_string(self) -> str:
        return ""

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 64


Path(launch["socket"]).unlink(missing_ok=True)
server = Server(launch["socket"], Answering)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(json.dumps({"ready": True, "engine": "1"}), flush=True)
sys.stdin.buffer.read()
os._exit(0)
