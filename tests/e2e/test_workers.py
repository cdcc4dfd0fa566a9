"""A node of several processes, as its users meet it: one port, one call a key, and whatever becomes of a process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from tests.asking import chat_body
from tests.e2e.program import Node, run, serving
from tests.fakes.upstream import begin_stream, chat, chunks_of, send_chunk, whole
from tests.waiting import until

CHAT = "/v1/chat/completions"
TEXT = "some words to say"
# Within which a stopped process must no longer hold anybody up: 3 s of silence, and what asking anew takes.
SILENCE_S = 3.0


def settings_for(url: str, more: str = "") -> str:
    return f'{more}\n[upstreams.fake]\nurl = "{url}"\n'


@asynccontextmanager
async def two_workers(upstream, home: Path, more: str = "") -> AsyncIterator[Node]:
    async with serving(home, settings_for(upstream.url, more), "--workers", "2") as node:
        try:
            yield node
        finally:
            for pid in node.workers:
                if is_alive(pid):
                    os.kill(pid, signal.SIGCONT)


@dataclass
class Told:
    status: int
    cache_status: str
    body: bytes

    @property
    def is_whole(self) -> bool:
        """Whether it is an answer to its end, and no error."""
        return self.status == 200 and b'"error"' not in self.body and TEXT.encode() in joined(self.body)


def joined(body: bytes) -> bytes:
    """The text of an answer, in whichever shape."""
    if not body.startswith(b"data: "):
        return body
    events = [line[6:] for line in body.split(b"\n") if line.startswith(b"data: {")]
    if not body.endswith(b"data: [DONE]\n\n"):
        return b""
    told = [json.loads(event) for event in events]
    return "".join(c["delta"].get("content") or "" for one in told for c in one["choices"]).encode()


class Callers:
    """Many callers at once, each with a connection of its own, spread over all workers."""

    def __init__(self, node: Node):
        self._node = node
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True))
        self.asking: list[asyncio.Task[Told]] = []

    async def __aenter__(self) -> Callers:
        return self

    async def __aexit__(self, *_: object) -> None:
        for asking in self.asking:
            asking.cancel()
        await asyncio.gather(*self.asking, return_exceptions=True)
        await self._session.close()

    async def ask(self, text: str = "hello", **members: object) -> Told:
        async with self._session.post(self._node.url + CHAT, json=chat_body(text, **members)) as response:
            return Told(response.status, response.headers["cache-status"], await response.read())

    def begin(self, count: int, **members: object) -> None:
        self.asking += [asyncio.create_task(self.ask(**members)) for _ in range(count)]

    async def spread(self, *, at_least: int, **members: object) -> dict[int, int]:
        """Begins so many that each worker has that many; how many each has, by its process."""
        for _ in range(50):
            self.begin(at_least, **members)
            await self.all_came()
            rows = (await self._node.stats())["workers"]
            if all(row["received"] >= at_least for row in rows):
                return {row["pid"]: row["received"] for row in rows}
        raise AssertionError(f"the callers never spread: {rows}")

    async def all_came(self) -> None:
        for _ in range(1000):
            if (await self._node.stats())["received"] >= len(self.asking):
                return
        raise AssertionError("the callers never came")

    async def told(self) -> list[Told]:
        """What those were told who were not cut off."""
        told = await asyncio.gather(*self.asking, return_exceptions=True)
        assert all(isinstance(one, (Told, aiohttp.ClientError)) for one in told), told
        return [one for one in told if isinstance(one, Told)]


class Gated:
    """Replies that begin and wait.  Each call after the first goes through at once."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self._begun = 0

    async def wait(self) -> None:
        self._begun += 1
        if self._begun == 1:
            await self.gate.wait()

    async def whole(self, call, writer, serial):
        await self.wait()
        await whole(writer, json.dumps(chat(call.json, TEXT)).encode())

    async def streamed(self, call, writer, serial):
        events = chunks_of(chat(call.json, TEXT), usage=True)
        await begin_stream(writer)
        for event in events[:2]:
            await send_chunk(writer, event)
        await self.wait()
        for event in events[2:]:
            await send_chunk(writer, event)
        writer.write(b"0\r\n\r\n")
        await writer.drain()


async def leader_of(node: Node) -> int:
    rows = (await node.stats())["workers"]
    (pid,) = [row["pid"] for row in rows if row["flights"] == 1]
    return int(pid)


def is_alive(pid: int) -> bool:
    """Whether a process runs: a zombie doesn't."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_two_hundred_equal_queries_at_once_are_one_call(upstream, tmp_path, workers, streamed):
    async def slow(call, writer, serial):
        await asyncio.sleep(0.3)
        reply = gated.streamed if streamed else gated.whole
        await reply(call, writer, serial)

    gated = Gated()
    gated.gate.set()
    upstream.on("m", slow)
    async with serving(tmp_path, settings_for(upstream.url), "--workers", workers) as node, Callers(node) as callers:
        callers.begin(200, stream=streamed)
        told = await callers.told()

    assert len(upstream.calls) == 1
    assert len(told) == 200
    assert all(one.is_whole for one in told)


async def test_callers_who_come_round_about_the_end_cause_no_second_call(upstream, tmp_path):
    async def quick(call, writer, serial):
        await asyncio.sleep(0.01)
        await whole(writer, json.dumps(chat(call.json, TEXT)).encode())

    upstream.on("m", quick)
    async with two_workers(upstream, tmp_path) as node, Callers(node) as callers:
        for i in range(20):
            for _ in range(8):
                callers.begin(3, text=f"question {i}")
                await asyncio.sleep(0.002)
        told = await callers.told()

    assert all(one.is_whole for one in told)
    assert len(upstream.calls) == 20


async def test_when_the_leader_is_killed_all_who_wait_elsewhere_are_answered_whole(upstream, tmp_path):
    gated = Gated()
    upstream.on("m", gated.whole)
    async with two_workers(upstream, tmp_path) as node, Callers(node) as callers:
        has = await callers.spread(at_least=50)
        leader = await leader_of(node)
        os.kill(leader, signal.SIGKILL)
        told = await callers.told()

    assert len(told) >= len(callers.asking) - has[leader]
    assert all(one.is_whole for one in told)
    assert len(upstream.calls) == 2


async def test_when_the_leader_is_killed_in_mid_stream_only_those_who_had_bytes_see_it(upstream, tmp_path):
    gated = Gated()
    upstream.on("m", gated.streamed)
    async with two_workers(upstream, tmp_path) as node, Callers(node) as callers:
        has = await callers.spread(at_least=10, stream=True)
        streams = len(callers.asking)
        callers.begin(streams)  # who want it whole: nothing of it went out to them
        await callers.all_came()
        leader = await leader_of(node)
        os.kill(leader, signal.SIGKILL)
        await asyncio.gather(*callers.asking, return_exceptions=True)
        begun = [task.result() for task in callers.asking[:streams] if task.exception() is None]
        waited = [task.result() for task in callers.asking[streams:] if task.exception() is None]
        later = await callers.ask(stream=True)

    assert len(begun) == streams - has[leader]
    assert all(one.body.startswith(b"data: ") and b'"code":"origin_cut"' in one.body for one in begun)
    assert waited
    assert all(one.is_whole for one in waited)
    assert later.is_whole


async def test_when_the_leader_is_stopped_all_others_are_served_after_its_silence(upstream, tmp_path):
    gated = Gated()
    upstream.on("m", gated.whole)
    async with two_workers(upstream, tmp_path) as node, Callers(node) as callers:
        has = await callers.spread(at_least=10)
        leader = await leader_of(node)
        others = len(callers.asking) - has[leader]
        os.kill(leader, signal.SIGSTOP)
        stopped_s = asyncio.get_running_loop().time()
        await until(lambda: sum(asking.done() for asking in callers.asking) >= others)
        took_s = asyncio.get_running_loop().time() - stopped_s
        told = [asking.result() for asking in callers.asking if asking.done()]
        again = await callers.ask()

    assert all(one.is_whole for one in told)
    assert took_s < SILENCE_S + 2
    assert "; hit" in again.cache_status


async def test_a_killed_worker_is_started_again_and_the_others_serve_meanwhile(upstream, tmp_path):
    async with two_workers(upstream, tmp_path) as node, Callers(node) as callers:
        await callers.ask()
        await node.written(1)
        os.kill(node.workers[0], signal.SIGKILL)
        told = await asyncio.gather(*(callers.ask() for _ in range(20)), return_exceptions=True)
        for _ in range(1000):
            counted = await node.stats()
            if all(row["ready"] for row in counted["workers"]) and counted["restarts"] == 1:
                break
        again = [await callers.ask() for _ in range(20)]

    # A connection that the killed one had taken is cut; no other caller may notice.
    assert all("; hit" in one.cache_status for one in told if isinstance(one, Told))
    assert sum(isinstance(one, Told) for one in told) >= 1
    assert node.workers[0] not in [row["pid"] for row in counted["workers"]]
    assert len(counted["workers"]) == 2
    assert all("; hit" in one.cache_status for one in again)
    assert len(upstream.calls) == 1


@pytest.mark.parametrize("purge", ["tag", "key"])
async def test_after_a_purge_under_load_no_worker_gives_an_old_answer(upstream, tmp_path, purge):
    async with two_workers(upstream, tmp_path) as node:
        headers = {"foretold-tags": "news"}
        status, told, first = await node.post(CHAT, chat_body("hello"), headers)
        key = told["cache-status"].partition('key="')[2][:64]
        answers: list[tuple[bool, bytes]] = []
        is_purged = False

        async def keep_asking() -> None:
            anew = aiohttp.TCPConnector(force_close=True)  # so that each worker is asked
            async with aiohttp.ClientSession(headers=headers, connector=anew) as session:
                while True:
                    began_after = is_purged
                    async with session.post(node.url + CHAT, json=chat_body("hello")) as response:
                        answers.append((began_after, await response.read()))

        load = [asyncio.create_task(keep_asking()) for _ in range(16)]
        await until(lambda: len(answers) > 500)
        asked = {"tag": "news"} if purge == "tag" else {"key": key}
        purged = await node.post("/-/cache/purge", asked, node.admin_headers)
        is_purged = True
        count = len(answers)
        await until(lambda: len(answers) > count + 1000)
        for task in load:
            task.cancel()
        await asyncio.gather(*load, return_exceptions=True)
        spread = [row["received"] for row in (await node.stats())["workers"]]

    assert purged[0] == 200
    assert status == 200
    assert {body for after, body in answers if after}
    assert first in {body for after, body in answers if not after}
    assert first not in {body for after, body in answers if after}
    assert min(spread) > 0


async def test_a_stopped_worker_keeps_no_purge_from_its_answer_and_gives_no_old_one_when_it_goes_on(upstream, tmp_path):
    async with two_workers(upstream, tmp_path) as node, Callers(node) as callers:
        await callers.ask()
        before = [await callers.ask() for _ in range(40)]
        os.kill(node.workers[0], signal.SIGSTOP)
        status, _, _ = await node.post("/-/cache/purge", {"model": "m"}, node.admin_headers)
        callers.begin(40)
        os.kill(node.workers[0], signal.SIGCONT)
        after = await callers.told()

    assert status == 200
    assert {one.body for one in before}.isdisjoint(one.body for one in after)


async def test_a_reload_is_in_force_in_every_worker_when_it_is_answered(upstream, tmp_path):
    async with two_workers(upstream, tmp_path) as node, Callers(node) as callers:
        before = [await callers.ask() for _ in range(10)]
        (tmp_path / "given.toml").write_text(settings_for(upstream.url, 'mode = "observe"\nserver.workers = 3'))
        status, _, told = await node.post("/-/config/reload", {}, node.admin_headers)
        after = await asyncio.gather(*(callers.ask() for _ in range(40)))
        (tmp_path / "given.toml").write_text("mode = 3")
        refused = await node.post("/-/config/reload", {}, node.admin_headers)

    assert status == 200
    assert json.loads(told)["changed"] == ["mode"]
    assert "; hit" in before[-1].cache_status
    assert not any("; hit" in one.cache_status for one in after)
    assert refused[0] == 422


async def test_a_worker_started_after_a_reload_has_the_settings_now_in_force(upstream, tmp_path):
    async with two_workers(upstream, tmp_path) as node, Callers(node) as callers:
        (tmp_path / "given.toml").write_text(settings_for(upstream.url, 'mode = "observe"'))
        await node.post("/-/config/reload", {}, node.admin_headers)
        for pid in node.workers:
            os.kill(pid, signal.SIGKILL)
        for _ in range(1000):
            try:
                counted = await node.stats()
            except aiohttp.ClientError:
                continue
            if counted["restarts"] == 2 and all(row["ready"] for row in counted["workers"]):
                break
        told = [await callers.ask() for _ in range(10)]

    assert counted["mode"] == "observe"
    assert not any("; hit" in one.cache_status for one in told)


async def test_a_hangup_of_the_parent_is_heard_by_every_worker(upstream, tmp_path):
    async with two_workers(upstream, tmp_path) as node, Callers(node) as callers:
        await callers.ask()
        (tmp_path / "given.toml").write_text(settings_for(upstream.url, 'mode = "observe"'))
        node.process.send_signal(signal.SIGHUP)
        for _ in range(1000):
            if (await node.stats())["mode"] == "observe":
                break
        told = await asyncio.gather(*(callers.ask() for _ in range(20)))

    assert not any("; hit" in one.cache_status for one in told)


async def test_a_worker_that_died_of_its_memory_twice_goes_on_without_the_disk(upstream, tmp_path):
    async with two_workers(upstream, tmp_path) as node, Callers(node) as callers:
        for times in (1, 2):
            rows = (await node.stats())["workers"]
            os.kill(rows[0]["pid"], signal.SIGSEGV)
            for _ in range(2000):
                counted = await node.stats()
                if counted["restarts"] == times and all(row["ready"] and row["answered"] for row in counted["workers"]):
                    break
        told = await asyncio.gather(*(callers.ask() for _ in range(20)))

    assert [row["tiers"] for row in counted["workers"]] == [["memory"], ["memory", "disk"]]
    assert {one.status for one in told} == {200}


async def test_counts_add_up_whichever_worker_is_asked(upstream, tmp_path):
    async with two_workers(upstream, tmp_path) as node, Callers(node) as callers:
        callers.begin(100)
        await callers.told()
        counted = [await node.stats() for _ in range(10)]
        async with aiohttp.ClientSession(headers=node.admin_headers) as session:
            async with session.get(f"{node.url}/-/metrics") as response:
                metrics = await response.text()

    assert {one["received"] for one in counted} == {100}
    assert {sum(one["how"].values()) for one in counted} == {100}
    assert {sum(row["received"] for row in one["workers"]) for one in counted} == {100}
    assert "foretold_received_total 100.0" in metrics
    assert "foretold_workers 2.0" in metrics


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_running_answers_may_end_and_nothing_is_left_behind(upstream, tmp_path, number, code):
    gated = Gated()
    upstream.on("m", gated.streamed)
    async with two_workers(upstream, tmp_path) as node, Callers(node) as callers:
        callers.begin(20, stream=True)
        await callers.all_came()
        await upstream.called(1)
        stopping = asyncio.create_task(node.stop(number))
        await until(lambda: not listens(node.url))
        gated.gate.set()
        told = await callers.told()
        ended_with = await stopping

    assert [one.is_whole for one in told] == [True] * 20
    assert ended_with == code
    assert not any(is_alive(pid) for pid in node.workers)
    assert not list((tmp_path / "flights").glob("*.sock"))


async def test_a_second_signal_stops_all_at_once(upstream, tmp_path):
    async def never(call, writer, serial):
        await call.cut.wait()

    upstream.on("m", never)
    async with two_workers(upstream, tmp_path, '[server]\ndrain = "1h"') as node, Callers(node) as callers:
        callers.begin(20)
        await upstream.called(1)
        node.process.send_signal(signal.SIGINT)
        await until(lambda: not listens(node.url))
        code = await node.stop(signal.SIGINT)

    assert code == 130
    assert not any(is_alive(pid) for pid in node.workers)


async def test_workers_end_with_a_parent_that_is_killed(upstream, tmp_path):
    async with two_workers(upstream, tmp_path) as node:
        node.process.kill()
        await node.process.wait()
        await until(lambda: not any(is_alive(pid) for pid in node.workers))
    async with two_workers(upstream, tmp_path) as node, Callers(node) as callers:
        told = await callers.ask("You said hello")

    assert told.status == 200


async def test_a_taken_port_ends_a_node_of_many_with_7_too(tmp_path):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        ended = await run("serve", "--port", str(port), "--workers", "2", home=tmp_path)

    assert ended.code == 7
    assert f"port {port} on 127.0.0.1 is taken by `" in ended.err


async def test_what_keeps_a_worker_from_starting_ends_the_node_and_is_told_once(tmp_path):
    (tmp_path / "foretold.toml").write_text(settings_for("http://127.0.0.1:9/v1"))
    (tmp_path / "answers").write_text("no folder")
    ended = await run("serve", "--port", "0", "--workers", "2", home=tmp_path)

    assert ended.code == 1
    assert ended.err.count("error: ") == 1
    assert "answers" in ended.err
    assert "Traceback" not in ended.err


async def test_a_model_of_the_node_is_run_once_for_all_workers(tmp_path):
    async with serving(tmp_path, None, "--workers", "2") as node:
        body = chat_body("Name a colour.", max_tokens=4, temperature=0) | {"model": "smollm2-135m"}
        told = [await node.post(CHAT, body | {"seed": seed}) for seed in range(8)]
        children = Path(f"/proc/{node.process.pid}/task/{node.process.pid}/children").read_text().split()
        engines = [pid for pid in children if b"foretold.models.engine" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    assert [status for status, _, _ in told] == [200] * 8
    assert len(engines) == 1


def listens(url: str) -> bool:
    try:
        socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=1).close()
    except OSError:
        return False
    return True
