"""Folding costs no more than what came; what it tells is in the vectors (contract/vectors/folding.json)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from foretold.projections import shapes

# At a cost of their square these would take many minutes.
PIECES = 60_000


WORD = "word" * 50


def transcript(deltas: list[dict[str, Any]]) -> bytes:
    told = [f"data: {json.dumps({'choices': [{'delta': delta}]})}\n\n" for delta in deltas]
    return "".join(told).encode() + b"data: [DONE]\n\n"


TEXT = [{"content": WORD}] * PIECES
CALLS = [{"tool_calls": [{"index": i, "id": "a"}]} for i in range(PIECES)]
NAME = [{"name": f"n{i} " + "n" * 100} for i in range(PIECES)]


@pytest.mark.parametrize(
    ("deltas", "told"),
    [
        (TEXT, {"content": WORD * PIECES}),
        (CALLS, {"tool_calls": [{"id": "a"}] * PIECES}),
        (NAME, {"name": "".join(delta["name"] for delta in NAME)}),
    ],
    ids=["text", "calls", "name"],
)
async def test_many_pieces_are_folded_in_a_time_that_grows_as_they_do(deltas, told):
    async with asyncio.timeout(60):
        answer = await asyncio.to_thread(shapes.folded, "chat", transcript(deltas))

    message = answer["choices"][0]["message"]
    assert {name: message[name] for name in told} == told
