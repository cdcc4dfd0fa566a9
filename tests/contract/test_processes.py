"""A key depends on nothing but the query: not on the process, nor on the seed of its hashes."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
from foretold.contract.canonical import read
from foretold.contract.inputs import json_input
from foretold.contract.key import key_of
from foretold.contract.query import Query, keyed_headers
body = b'{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[{"b":1,"a":{"d":2,"c":3}}],"zeta":1,"alpha":2}'
headers = keyed_headers("chat", [("OpenAI-Project", "p"), ("openai-beta", "b"), ("x-other", "o")])
print(key_of(Query("n", "chat", "m", "r", json_input("chat", read(body)), headers=headers)))
"""


def test_a_key_is_the_same_in_every_process():
    keys = set()
    for seed in ("0", "1", "12345", "random"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
        )
        keys.add(done.stdout.strip())

    assert len(keys) == 1
    assert len(keys.pop()) == 64
