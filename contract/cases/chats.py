"""Chat answers as the tables of folding and unfolding tell them."""

from typing import Any

HEAD = {"id": "chatcmpl-1", "created": 1700000000, "model": "m"}
USAGE = {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6}


def chunk(delta: Any, finish: Any = None, index: Any = 0, **rest: Any) -> dict[str, Any]:
    return {
        **HEAD,
        "object": "chat.completion.chunk",
        "choices": [{"index": index, "delta": delta, "finish_reason": finish}],
        **rest,
    }


def whole(message: Any, finish: Any = "stop", **rest: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": None, **message}, "finish_reason": finish}
    return {**HEAD, "object": "chat.completion", "choices": [choice], **rest}


def call(index: int, **rest: Any) -> dict[str, Any]:
    return {"tool_calls": [{"index": index, **rest}]}
