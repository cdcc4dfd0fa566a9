"""A stand-in for the engine's program.  Its mood is the model's alias; what it is told and given it writes beside the
weights."""

import json
import os
import sys
import time
from pathlib import Path

line = sys.stdin.buffer.readline()
launch = json.loads(line)
here = Path(launch["weights"]).parent
with (here / "starts").open("a") as starts:
    starts.write(f"{os.getpid()}\n")
(here / "launch.json").write_bytes(line)
(here / "given.json").write_text(json.dumps({"argv": sys.argv, "env": dict(os.environ), "cwd": os.getcwd()}))
mood = (here / "mood").read_text() if (here / "mood").exists() else launch["alias"]

if mood == "hangs":
    sys.stdin.buffer.read()
if mood == "refuses":
    print("0.00.001.000 E gguf: invalid magic\n0.00.002.000 E srv: exiting", file=sys.stderr)
    print(json.dumps({"failed": "Failed to init server"}))
    sys.exit(0)
if mood == "dies":
    print("0.00.001.000 E out of memory", file=sys.stderr)
    sys.exit(3)
if mood == "talks":
    print("x" * 1_000_000, file=sys.stderr, flush=True)
    for i in range(5000):
        print("line", i, file=sys.stderr)
if mood == "garbled":
    print("this is no handshake", flush=True)
    sys.stdin.buffer.read()

Path(launch["socket"]).touch()
print(json.dumps({"ready": True, "engine": "1"}), flush=True)
if mood == "deaf":
    time.sleep(600)
sys.stdin.buffer.read()
