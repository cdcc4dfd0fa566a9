"""Functions that answer as a model does: each in another way, chosen by the question."""

import asyncio
import os
import time
from pathlib import Path

HERE = Path(os.environ.get("WORLD", "."))


def reply(operation, body):
    """Text at once, or an answer in OpenAI's shape."""
    question = body["messages"][-1]["content"] if operation == "chat" else body["prompt"]
    if question == "raise":
        raise ValueError("a secret of the question")
    if question == "object":
        message = {"role": "assistant", "content": "an object"}
        usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
        return {"choices": [{"index": 0, "message": message, "finish_reason": "length"}], "usage": usage}
    if question == "number":
        return 7
    if question == "body":
        return ",".join(sorted(body))
    return f"{operation}: {question}"


def stream(operation, body):
    """Word by word."""
    question = body["messages"][-1]["content"]
    with (HERE / "calls").open("a") as calls:
        calls.write("begun\n")
    try:
        if question == "endless":
            while True:
                yield "on "
                time.sleep(0.001)
        if question == "spin":
            yield "first "
            while True:
                pass
        for word in ("one ", "two ", "three"):
            yield word
            if question == "raise":
                raise ValueError("a secret of the question")
    finally:
        with (HERE / "calls").open("a") as calls:
            calls.write("ended\n")


async def later(operation, body):
    """One that waits for others."""
    await asyncio.sleep(0)
    return "later"


async def exits(operation, body):
    """One that wants to end its process, while another of its calls goes on."""
    if body["messages"][-1]["content"] == "exit":
        raise SystemExit("a secret of the question")
    yield "on "
    while not (HERE / "finish").exists():
        await asyncio.sleep(0.001)
    yield "to the end"


async def drip(operation, body):
    """An endless one that waits for others."""
    try:
        while True:
            yield "on "
            await asyncio.sleep(0.001)
    finally:
        with (HERE / "calls").open("a") as calls:
            calls.write("ended\n")


class Kept:
    """One that remembers, as a model that is loaded once does."""

    def __init__(self):
        self.asked = 0

    def answer(self, operation, body):
        self.asked += 1
        return f"number {self.asked}"


kept = Kept()
