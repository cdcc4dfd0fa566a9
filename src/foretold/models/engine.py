"""The program of a host process: one model, served on a unix socket until stdin closes.

Run as `python -m foretold.models.engine`.  It reads one line of settings from stdin (`launch.py`), writes one line of
JSON to stdout, `{"ready": true, …}` or `{"failed": "why"}`, and logs to stderr.  Nothing else imports the engine, so
that its faults end this process and no other.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import resource
import signal
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from foretold.models.handshake import drop_inherited_files, keep_stdout_to_ourselves, tell
from foretold.models.launch import Launch, launch_of

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
# Beyond what the model needs: the interpreter, 8 MiB of stack for each of about 15 threads, grammars, requests.
_MARGIN_BYTES = 512 * 2**20
_WRITE_TIMEOUT_S = 120
_READ_TIMEOUT_S = 30
_ERRORS_ONLY = 1


def main() -> None:
    began_s = time.monotonic()
    drop_inherited_files()
    answers = keep_stdout_to_ourselves()
    launch = launch_of(sys.stdin.buffer.readline())
    confine(launch)
    try:
        server = load(launch)
    except ImportError as e:
        tell(answers, {"failed": f"the engine cannot be imported ({e}): pip install xllamacpp"})
        return
    except (RuntimeError, ValueError, MemoryError) as e:
        tell(answers, {"failed": str(e) or type(e).__name__})
        return
    tell(
        answers,
        {
            "ready": True,
            "engine": metadata.version("xllamacpp"),
            "address": server.listening_address,
            "took_s": round(time.monotonic() - began_s, 3),
        },
    )
    sys.stdin.buffer.read()
    with contextlib.suppress(OSError):
        Path(launch.socket).unlink(missing_ok=True)
    # Its own orderly end would wait for running answers, and there is nothing to save.
    os._exit(0)


def confine(launch: Launch) -> None:
    """Gives up what this process does not need, before it reads the model or listens."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # some containers forbid it
            Path("/proc/self/oom_score_adj").write_text("500")
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        resource.setrlimit(
            resource.RLIMIT_DATA, _lowered(resource.RLIMIT_DATA, launch.memory_bytes * 5 // 4 + _MARGIN_BYTES)
        )
    if os.getppid() != launch.parent_pid:
        sys.exit("the node ended before its engine began")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0o077)
    Path(launch.socket).unlink(missing_ok=True)


def load(launch: Launch) -> Any:
    """A server that listens.  Raises RuntimeError, with the reason on stderr only."""
    xllamacpp: Any = importlib.import_module("xllamacpp")
    return xllamacpp.Server(params_of(launch, xllamacpp))


def params_of(launch: Launch, xllamacpp: Any) -> Any:
    """The engine's own form of its settings."""
    params = xllamacpp.CommonParams()
    params.model.path = launch.weights
    params.model_alias = {launch.alias}  # by default the answers name the file's path
    params.hostnames = [launch.socket]
    params.api_keys = [launch.api_key]
    params.n_ctx = launch.context * launch.parallel
    params.n_parallel = launch.parallel
    params.kv_unified = False  # each slot has its own share, whatever the others do
    params.fit_params = False  # it would reshape the context to what is free just now
    params.cache_type_k = _cache_type(xllamacpp, launch.cache_type_k)
    params.cache_type_v = _cache_type(xllamacpp, launch.cache_type_v)
    if launch.chat_template is not None:
        params.chat_template = launch.chat_template
    _never_share_prompts(params)
    _notice_cancels(params)
    if launch.embeds:
        _read_whole_texts(params, launch.context)
    _open_no_doors(params)
    if launch.sleep_s:
        params.sleep_idle_seconds = launch.sleep_s
    for cpu in (params.cpuparams, params.cpuparams_batch):
        cpu.n_threads = launch.threads or threads_for(launch.residents, cores=physical_cores())
        cpu.poll = 0  # its threads spin while they wait, and starve whoever else needs the cores
    params.verbosity = _ERRORS_ONLY  # what is below names prompts
    return params


def _never_share_prompts(params: Any) -> None:
    """An answer must not depend on who asked before, which a kept prompt makes it do: even at temperature 0."""
    params.cache_prompt = False
    params.cache_idle_slots = False
    params.cache_ram_mib = 0  # 8 GiB by default
    params.n_ctx_checkpoints = 0


def _notice_cancels(params: Any) -> None:
    """The engine looks for a closed connection between two batches, and only where it reports progress.

    Batches of 64 tokens free a slot within 0.9 s here and read a prompt as fast as those of 128; 32 are slower.
    """
    params.n_batch = 64
    params.n_ubatch = 64
    params.sse_ping_interval = -1  # a ping would show life where there is none
    params.n_threads_http = params.n_parallel + 4
    params.timeout_read = _READ_TIMEOUT_S
    params.timeout_write = _WRITE_TIMEOUT_S


def _read_whole_texts(params: Any, context: int) -> None:
    """A vector is made of a text in one batch: a longer text is refused, whatever context is left."""
    params.embedding = True
    params.n_batch = context
    params.n_ubatch = context


def _open_no_doors(params: Any) -> None:
    params.ui = False
    params.endpoint_slots = False
    params.endpoint_props = False
    params.endpoint_metrics = False
    params.cors_origins = ""
    params.cors_credentials = False
    params.offline = True
    params.ctx_shift = False  # a full context ends the answer instead of forgetting its beginning


def threads_for(residents: int, *, cores: int) -> int:
    """Never all cores, and of those a share for each model that is loaded."""
    return max(1, (cores - 1) // residents)


def physical_cores() -> int:
    """Cores this process may use, two threads of one core counted once."""
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    siblings = set()
    for cpu in usable:
        topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        try:
            siblings.add(topology.read_text())
        except OSError:
            siblings.add(str(cpu))
    return len(siblings)


def _cache_type(xllamacpp: Any, name: str) -> Any:
    kind = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{name.upper()}", None)
    if kind is None:
        raise ValueError(f"the engine has no cache type {name!r}: f16 and q8_0 are usual")
    return kind


def _lowered(limit: int, wanted_bytes: int) -> tuple[int, int]:
    """A resource limit that is no higher than the one already there."""
    hard = resource.getrlimit(limit)[1]
    lowered = wanted_bytes if hard == resource.RLIM_INFINITY else min(wanted_bytes, hard)
    return lowered, lowered


if __name__ == "__main__":
    main()
