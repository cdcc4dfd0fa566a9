"""What is answered in the benchmark: one chat completion of 556 bytes, and one of 200 chunks."""

from __future__ import annotations

import json
from typing import Any

ANSWER_BYTES = 556
CHUNKS = 200

_COMMON = {"id": "chatcmpl-0123456789abcdef", "created": 1_700_000_000, "model": "fast"}
_TEXT = (
    "Paris is the capital of France, and has been one since the tenth century. It lies on the Seine in the north of "
    "the country; about two million people live in the city itself and some twelve million in the region around it. "
)


def _whole(text: str) -> bytes:
    message = {"role": "assistant", "content": text, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    usage = {"prompt_tokens": 40, "completion_tokens": 60, "total_tokens": 100}
    return _compact(
        {**_COMMON, "object": "chat.completion", "system_fingerprint": "fp_mock", "choices": [choice], "usage": usage}
    )


def _events() -> list[bytes]:
    common: dict[str, Any] = {**_COMMON, "object": "chat.completion.chunk"}
    deltas = [{"content": f"word{i} "} | ({"role": "assistant"} if i == 0 else {}) for i in range(CHUNKS)]
    told: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
    ]
    finish = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    usage = {"prompt_tokens": 40, "completion_tokens": CHUNKS, "total_tokens": 40 + CHUNKS}
    events = [common | event for event in (*told, finish, {"choices": [], "usage": usage})]
    return [b"data: " + _compact(event) + b"\n\n" for event in events] + [b"data: [DONE]\n\n"]


def _compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


WHOLE = _whole(_TEXT + "." * (ANSWER_BYTES - len(_whole(_TEXT))))
EVENTS = _events()
TRANSCRIPT = b"".join(EVENTS)
