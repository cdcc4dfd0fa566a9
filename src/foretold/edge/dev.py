"""The edge on this machine, from start to end: what it needs, what changes it, what it leaves."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from foretold.config.settings import Config
from foretold.datafolder import DataFolder, kept_text
from foretold.deploy.settings import EdgeSettings
from foretold.edge import bindings, watching
from foretold.edge.bindings import ACCOUNT, NAMESPACE, NodeFace
from foretold.edge.platform import Platform
from foretold.edge.runtime import Runtime, Started
from foretold.errors import EdgeError, ForetoldError
from foretold.generations import FileGenerations
from foretold.stores.cloudflare.api import KvApi, Place
from foretold.stores.cloudflare.budget import Budget
from foretold.stores.cloudflare.purges import SharedGenerations

LOOK_S = 0.3
NODE_EVERY_S = 2.0
# Local KV shows at once what was written, and no call of it is counted.
READ_PURGES_S = 1.0
WAKE_S = 5.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to run.

    `face` asks the node for its models, and raises ForetoldError; `find` only whether it is there; `read` gives
    edge.toml and its folder, or none.
    """

    config: Config
    folder: DataFolder
    port: int
    kv_port: int
    face: Callable[[], NodeFace]
    find: Callable[[], None]
    read: Callable[[], tuple[EdgeSettings | None, Path]]
    edge_file: Path | None


class LocalEdge:
    def __init__(self, wanted: Wanted, platform: Platform, *, tell: Callable[[str], None]):
        """`tell` is told what happens while it runs."""
        self._wanted = wanted
        self._platform = platform
        self._tell = tell
        self._secret = wanted.folder.secret()
        self._home = wanted.folder.edge
        self._home.mkdir(mode=0o700, exist_ok=True)
        self._lock = _locked(self._home)
        self.token_file = self._home / "kv-token"
        self._token = kept_text(self.token_file)
        self._runtime: Runtime | None = None
        self._purges: SharedGenerations | None = None
        self._watched: watching.Stamps = {}
        self._node_is_gone = False
        self.face: NodeFace | None = None

    async def start(self) -> Started:
        """Raises ForetoldError."""
        self.face = await asyncio.to_thread(self._wanted.face)
        self._runtime = await Runtime.start(self._platform, log=lambda line: self._tell(f"  worker: {line}"))
        started = await self._run()
        await self._follow_purges(started)
        await self._wake(started)
        return started

    async def _wake(self, started: Started) -> None:
        """A first look-up, for nobody: the Worker's tiers have 250 ms each, and a KV that nobody used yet may take
        longer.
        """
        assert self.face is not None
        asked = {"model": self.face.own_model or "any", "messages": [{"role": "user", "content": "Are you awake?"}]}
        address = f"{started.url}/v1/chat/completions"
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=WAKE_S)) as session,
                session.post(address, json=asked, headers={"cache-control": "only-if-cached"}) as response,
            ):
                await response.read()
        except (aiohttp.ClientError, TimeoutError):
            return  # whoever asks next will see

    async def watch(self) -> None:
        """Runs what changed, until it is cancelled.  Raises EdgeError if the runtime ends."""
        assert self._runtime is not None
        ended = asyncio.create_task(self._runtime.ended())
        looks = 0
        try:
            while not ended.done():
                await asyncio.wait([ended], timeout=LOOK_S)
                looks += 1
                if await asyncio.to_thread(self._has_changed) or (
                    looks % round(NODE_EVERY_S / LOOK_S) == 0 and await self._has_other_models()
                ):
                    await self._again()
        finally:
            ended.cancel()
        raise EdgeError(f"the Worker's runtime has ended by itself, with {ended.result()}: start this again")

    async def close(self) -> None:
        if self._purges is not None:
            await self._purges.close()
        if self._runtime is not None:
            await self._runtime.close()
        os.close(self._lock)

    async def _run(self) -> Started:
        assert self._runtime is not None
        described, paths = await asyncio.to_thread(self._described)
        self._watched = watching.stamps(paths)
        return await self._runtime.run(described)

    def _described(self) -> tuple[dict[str, Any], list[Path]]:
        wanted = self._wanted
        assert self.face is not None
        edge, folder = wanted.read()
        worker = bindings.worker_of(
            self.face,
            wanted.config,
            edge,
            folder=folder,
            secret=self._secret,
            admin_token=wanted.folder.admin_token(),
        )
        files = watching.files_of(Path(worker["root"]) / worker["entry"])
        described = {
            "worker": worker,
            "keep": str(self._home),
            "port": wanted.port,
            "ai": bindings.ai_of(self.face),
            "api": {"account": ACCOUNT, "namespace": NAMESPACE, "token": self._token, "port": wanted.kv_port},
        }
        return described, [*files, *([wanted.edge_file] if wanted.edge_file is not None else [])]

    def _has_changed(self) -> bool:
        """Whether a file did; one that can't be parsed is told, and what ran goes on."""
        now = watching.stamps(self._watched)
        paths = watching.changed(self._watched, now)
        self._watched = now
        try:
            for path in paths:
                watching.check(path, node=self._platform.node)
        except EdgeError as error:
            self._tell(f"The Worker stays as it was: {error}")
            return False
        return bool(paths)

    async def _has_other_models(self) -> bool:
        assert self.face is not None
        try:
            await asyncio.to_thread(self._wanted.find)
            # Without models of its own the list is its upstream's: not to be asked all the time.
            may_differ = self.face.own_model is not None or self._node_is_gone
            face = await asyncio.to_thread(self._wanted.face) if may_differ else self.face
        except ForetoldError as error:
            if not self._node_is_gone:
                self._node_is_gone = True
                self._tell(f"The node doesn't answer: {error}")
            return False
        if self._node_is_gone:
            self._node_is_gone = False
            self._tell("The node answers again.")
        is_other = face != self.face
        self.face = face
        return is_other

    async def _again(self) -> None:
        try:
            await self._run()
        except ForetoldError as error:
            self._tell(f"The change does not run: {error}")
        else:
            self._tell("Changed: the Worker runs anew; KV and bucket stay.")

    async def _follow_purges(self, started: Started) -> None:
        """A purge at the node is one here and the other way round, whether the node has a tier in this KV or not."""
        api = KvApi(Place(ACCOUNT, NAMESPACE, self._token, started.api), Budget(now_s=_always_more()))
        file = FileGenerations(self._wanted.folder.generations, self._secret)
        self._purges = SharedGenerations(file, api, self._home / "purges-read", every_s=READ_PURGES_S)
        await self._purges.open()


def tier_text(started: Started, token_file: Path) -> str:
    """The settings of a node's tier in this KV."""
    return (
        '[[tiers]]\nstore = "memory"\nlimit = "256 MiB"\n\n[[tiers]]\nstore = "disk"\nlimit = "2 GiB"\n\n'
        f'[[tiers]]\nstore = "cloudflare_kv"\nurl = "{started.api}"\naccount_id = "{ACCOUNT}"\n'
        f'namespace_id = "{NAMESPACE}"\ntoken = {{ file = "{token_file}" }}\nread_purges = "1s"\n'
    )


def _locked(home: Path) -> int:
    """Held until it is closed: two runtimes on one folder break each other's KV."""
    lock = os.open(home / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise EdgeError(
            f"another `foretold edge dev` has {home}: stop it, or set FORETOLD_HOME to another node's data folder"
        ) from None
    return lock


def _always_more() -> Callable[[], float]:
    now_s = 0.0

    def read() -> float:
        nonlocal now_s
        now_s += 3600
        return now_s

    return read
