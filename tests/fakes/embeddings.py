"""Replies of an upstream of embeddings."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.fakes.upstream import Call, Reply, whole
from tests.fakes.vectors import embeddings


async def embed(call: Call, writer: asyncio.StreamWriter, serial: int) -> None:
    await whole(writer, json.dumps(embeddings(call.json)).encode())


def embed_once(may_go_on: asyncio.Event) -> Reply:
    """Answers once it may."""

    async def reply(call: Call, writer: asyncio.StreamWriter, serial: int) -> None:
        waiting = [asyncio.ensure_future(event.wait()) for event in (may_go_on, call.cut)]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for one in waiting:
            one.cancel()
        if may_go_on.is_set():
            await embed(call, writer, serial)

    return reply


def embed_with(change: Any) -> Reply:
    """Answers with what `change` makes of the right answer."""

    async def reply(call: Call, writer: asyncio.StreamWriter, serial: int) -> None:
        await whole(writer, json.dumps(change(embeddings(call.json))).encode())

    return reply
