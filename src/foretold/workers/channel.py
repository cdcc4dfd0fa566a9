"""Questions and answers between the parent and one worker, both ways over one socket."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import orjson

from foretold.errors import ForetoldError
from foretold.fault import Fault, error_of, fault_of

_log = logging.getLogger("foretold")

Answer = Callable[[str, dict[str, Any]], Awaitable[Any]]


class ChannelClosed(ForetoldError):
    """The other process is gone."""


class Channel:
    """Made by `open`.  A question that is answered takes nothing from those that come meanwhile."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer):
        self.closed = asyncio.Event()
        self._reader = reader
        self._writer = writer
        self._answer = answer
        self._numbers = itertools.count()
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, sock: socket.socket, answer: Answer) -> Channel:
        sock.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=sock)
        return cls(reader, writer, answer)

    async def ask(self, what: str, /, **members: Any) -> Any:
        """Raises ChannelClosed, or the error that the other side told."""
        number = next(self._numbers)
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            self._send({"ask": what, "number": number, "members": members})
            return await answer
        finally:
            del self._asked[number]

    def say(self, what: str, /, **members: Any) -> None:
        """As `ask`, where no answer is wanted."""
        with contextlib.suppress(ChannelClosed):
            self._send({"ask": what, "number": None, "members": members})

    async def close(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    def _send(self, message: dict[str, Any]) -> None:
        if self.closed.is_set():
            raise ChannelClosed("the other process of this node is gone")
        body = orjson.dumps(message)
        self._writer.write(len(body).to_bytes(4, "big") + body)

    async def _read(self) -> None:
        try:
            while True:
                length = int.from_bytes(await self._reader.readexactly(4), "big")
                self._take(orjson.loads(await self._reader.readexactly(length)))
        except (OSError, asyncio.IncompleteReadError):
            pass  # the other side ended
        finally:
            self.closed.set()
            for answer in self._asked.values():
                if not answer.done():
                    answer.set_exception(ChannelClosed("the other process of this node is gone"))
            for task in self._answering:
                task.cancel()
            self._writer.close()

    def _take(self, message: dict[str, Any]) -> None:
        if "ask" in message:
            task = asyncio.create_task(self._reply(message))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
            return
        answer = self._asked.get(message["number"])
        if answer is None or answer.done():
            return  # whoever asked has given up
        if "fault" in message:
            answer.set_exception(error_of(msgspec.convert(message["fault"], Fault)))
        else:
            answer.set_result(message["told"])

    async def _reply(self, message: dict[str, Any]) -> None:
        told: dict[str, Any] = {"number": message["number"]}
        try:
            told["told"] = await self._answer(message["ask"], message["members"])
        except ForetoldError as error:
            told["fault"] = msgspec.to_builtins(fault_of(error))
        except Exception:  # noqa: BLE001 - a fault of ours must not leave the other side waiting: told, and logged whole
            _log.exception("a question between the processes of this node could not be answered")
            told["fault"] = msgspec.to_builtins(
                Fault("ForetoldError", "a process of this node failed: its log says how")
            )
        if message["number"] is not None:
            with contextlib.suppress(ChannelClosed):
                self._send(told)
