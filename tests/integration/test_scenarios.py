"""This side keeps every scenario of contract/scenarios/ that is for the node; worker/test/edge/ has the edge's."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.clock import Clock
from tests.fakes.upstream import Call, FakeUpstream, Reply, answer, begin_stream, chat, send_chunk, stream, whole
from tests.running import Answered, Client, running
from tests.waiting import until

FOLDER = Path(__file__).parents[2] / "contract" / "scenarios"
SCENARIOS = [scenario for file in sorted(FOLDER.glob("*.json")) for scenario in json.loads(file.read_text())]
OURS = [scenario for scenario in SCENARIOS if "node" in scenario.get("on", ["node", "edge"])]


class Scripted(FakeUpstream):
    """Gives its replies one after the other, the last again and again; a good answer where there is none."""

    def __init__(self, replies: list[dict[str, Any]]):
        super().__init__()
        self._given = replies

    def _reply_to(self, call: Call) -> Reply:
        if not self._given or call.method == "GET" and call.target.endswith("/models"):
            return answer
        return _reply(self._given[min(len(self.calls), len(self._given)) - 1])


def _reply(told: dict[str, Any]) -> Reply:
    async def reply(call: Call, writer: asyncio.StreamWriter, serial: int) -> None:
        more = "".join(f"{name}: {value}\r\n" for name, value in told.get("headers", {}).items())
        if told.get("refused"):
            writer.transport.abort()
        elif "events" in told:
            events = [f"data: {data}\n\n".encode() for data in told["events"]]
            if "cut_after" not in told:
                await stream(writer, events)
                return
            await begin_stream(writer, more=more)
            for event in events[: told["cut_after"]]:
                await send_chunk(writer, event)
            writer.close()
        elif "json" in told and "announced" in told:
            body = json.dumps(told["json"]).encode()
            head = f"HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: {told['announced']}\r\n\r\n"
            writer.write(head.encode() + body)
            await writer.drain()
            writer.close()
        elif "json" in told:
            await whole(writer, json.dumps(told["json"]).encode(), status=told.get("status", 200), more=more)
        elif more:
            text = f"You said {call.json['messages'][-1]['content']!r}. This is call {serial}."
            await whole(writer, json.dumps(chat(call.json, text)).encode(), more=more)
        else:
            await answer(call, writer, serial)

    return reply


def toml(value: Any) -> str:
    """A value inline, as TOML writes it."""
    match value:
        case dict():
            return "{ " + ", ".join(f"{json.dumps(name)} = {toml(member)}" for name, member in value.items()) + " }"
        case list():
            return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def settings_of(scenario: Mapping[str, Any], url: str) -> str:
    settings = {"upstreams": {"fake": {"url": "{origin}"}}, **scenario.get("settings", {})}
    text = json.dumps(settings).replace("{origin}", url)
    return "".join(f"{name} = {toml(value)}\n" for name, value in json.loads(text).items())


@pytest.mark.parametrize("scenario", OURS, ids=lambda scenario: f"{scenario['rule']}: {scenario['name']}")
async def test_the_node_keeps(scenario, tmp_path):
    clock = Clock()
    async with (
        Scripted(scenario.get("origin", [])) as origin,
        running(settings_of(scenario, origin.url), tmp_path, now_ms=clock, monotonic_ms=clock) as node,
    ):
        answers: list[Answered] = []
        for step in scenario["steps"]:
            clock.forward(s=step.get("later_s", 0))
            if "calls" in step:
                await origin.called(step["calls"])
                await until(lambda: len(node.node.flights) == 0)
            if "send" in step:
                answers.append(await sent(node, step["send"]))
                for name, wanted in step["back"].items():
                    CHECKS[name](wanted, answers, origin)


def test_most_scenarios_are_for_both():
    assert len(OURS) >= 50
    assert sum("on" not in scenario for scenario in SCENARIOS) >= 50


async def sent(node: Client, asked: dict[str, Any]) -> Answered:
    body = asked.get("body")
    data = json.dumps(asked["json"]).encode() if "json" in asked else None if body is None else body.encode()
    try:
        return await node.send(asked["method"], asked["path"], data, asked.get("headers"))
    except aiohttp.ClientPayloadError:
        return Answered(BROKE_OFF, {}, b"")


BROKE_OFF = 599


def cache(wanted: str, answers: list[Answered], _: FakeUpstream) -> None:
    ours = re.split(r", (?=[A-Z])", answers[-1].cache_status)[-1]
    assert re.sub(r'; key="[0-9a-f]{64}"', "", ours) == f"Foretold; {wanted}"


def code(wanted: str, answers: list[Answered], _: FakeUpstream) -> None:
    told = answers[-1].json
    assert told.get("error", told)["code"] == wanted


def fields(found: Mapping[str, str | None], wanted: Mapping[str, str | None]) -> None:
    assert {name: found.get(name) for name in wanted} == wanted


def equal(wanted: Any, found: Any) -> None:
    assert found == wanted


def holds(fact: bool) -> None:
    assert fact


CHECKS = {
    "status": lambda wanted, answers, origin: equal(wanted, answers[-1].status),
    "cache": cache,
    "no_key": lambda wanted, answers, origin: holds("key=" not in answers[-1].cache_status),
    "kind": lambda wanted, answers, origin: equal(wanted, answers[-1].headers["content-type"]),
    "text": lambda wanted, answers, origin: equal(wanted, answers[-1].text),
    "json": lambda wanted, answers, origin: equal(wanted, answers[-1].json),
    "body": lambda wanted, answers, origin: equal(wanted, answers[-1].body.decode()),
    "code": code,
    "has": lambda wanted, answers, origin: holds(wanted in answers[-1].body.decode()),
    "lacks": lambda wanted, answers, origin: holds(wanted not in answers[-1].body.decode()),
    "headers": lambda wanted, answers, origin: fields(answers[-1].headers, wanted),
    "same_body_as": lambda wanted, answers, origin: equal(answers[wanted].body, answers[-1].body),
    "calls": lambda wanted, answers, origin: equal(wanted, len(origin.calls)),
    "broken": lambda wanted, answers, origin: holds(answers[-1].status >= 500),
    "origin_got": lambda wanted, answers, origin: holds(wanted in origin.calls[-1].body.decode().replace(" ", "")),
    "origin_lacks": lambda wanted, answers, origin: holds(wanted not in origin.calls[-1].body.decode()),
    "origin_target": lambda wanted, answers, origin: equal(wanted, origin.calls[-1].target),
    "origin_header": lambda wanted, answers, origin: fields(
        {name: origin.calls[-1].header(name) for name in wanted}, wanted
    ),
}
