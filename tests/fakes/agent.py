"""A model that calls tools: two at a time, for three turns, with new ids each time as providers give them."""

from __future__ import annotations

import json
import secrets
from typing import Any

from tests.fakes.upstream import chat, chunks_of, stream, whole

TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather of a city",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]


async def agent(call, writer, serial):
    turns = sum(1 for m in call.json["messages"] if m["role"] == "assistant")
    if turns < 3:
        calls = [
            {
                "id": f"call_{secrets.token_hex(12)}",
                "type": "function",
                "function": {"name": "weather", "arguments": json.dumps({"city": f"{city} {turns}"})},
            }
            for city in ("Hà Nội", "Đà Nẵng")
        ]
        told = chat(call.json, None, finish="tool_calls", calls=calls)
    else:
        told = chat(call.json, "It rains in both, as it did before.")
    if call.json.get("stream"):
        await stream(writer, chunks_of(told, usage=(call.json.get("stream_options") or {}).get("include_usage", False)))
    else:
        await whole(writer, json.dumps(told).encode())


def without_ids(told: dict[str, Any]) -> Any:
    """An answer with its tool-call ids numbered, and what a client adds or leaves out by itself dropped."""
    numbers: dict[str, str] = {}
    for choice in told["choices"]:
        for tool_call in choice["message"].get("tool_calls") or ():
            tool_call["id"] = numbers.setdefault(tool_call["id"], f"#{len(numbers)}")

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: bare(v) for k, v in value.items() if v not in (None, [])}
        return [bare(v) for v in value] if isinstance(value, list) else value

    return bare(told)
