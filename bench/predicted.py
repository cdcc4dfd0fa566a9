"""Private memory of engines' processes, beside what was predicted from their models' headers.

python bench/predicted.py [--only TEXT] [--only-print]

Each model is loaded as a node does it, and as many questions as it has slots fill its context to the end.  Ends with an
error where a prediction is off by more than 15 %, except with `--only-print`.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.fakes import tiny_models
from tests.real_model.conftest import Quiet
from tests.real_model.minilm import minilm

from foretold.datafolder import models_folder
from foretold.models import bundled
from foretold.models.host import Host
from foretold.models.library.describing import Said, described, header_of
from foretold.models.manifest import SMOLLM2, File, Manifest
from foretold.origins.engine_call import Patience
from foretold.origins.local import LocalOrigin
from foretold.ports import Asked, Forwarded

MOST_OFF = 0.15
# Reading a context to its end takes one thread minutes.
PATIENCE = Patience(slot_s=900, first_s=900, idle_s=900, total_s=1800)


@dataclass(frozen=True)
class Case:
    """`model` is SmolLM2, MiniLM, or a tiny one made for this, `said` what is told of it when it is pushed."""

    model: str
    context: int
    parallel: int = 1
    kv: str = "f16"

    @property
    def name(self) -> str:
        return f"{self.model}, {self.parallel} × {self.context:,}, {self.kv}"


CASES = (
    Case("SmolLM2 bundled", 512),
    Case("SmolLM2 bundled", 2048),
    Case("SmolLM2 bundled", 2048, parallel=2),
    Case("SmolLM2", 512, parallel=8),
    Case("SmolLM2", 2048),
    Case("SmolLM2", 2048, kv="q8_0"),
    Case("SmolLM2", 2048, kv="f32"),
    Case("SmolLM2", 8192),
    Case("tiny", 512),
    Case("tiny", 8192, parallel=4),
    Case("tiny", 32_768),
    Case("tiny", 32_768, kv="f32"),
    Case("MiniLM", 256),
    Case("MiniLM", 512, parallel=4),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only cases with this in their name")
    parser.add_argument("--only-print", action="store_true", help="no error where a prediction is off")
    args = parser.parse_args()
    print(
        "| model, slots × tokens, kept as | predicted MB | measured MB | predicted over measured |\n|---|---:|---:|---:|"
    )
    worst = 0.0
    for case in CASES:
        if args.only in case.name:
            ratio = asyncio.run(measured(case))
            worst = max(worst, abs(ratio - 1))
    print(f"\nfurthest off: {worst:.0%}, at most {MOST_OFF:.0%}")
    return 0 if worst <= MOST_OFF or args.only_print else 1


async def measured(case: Case) -> float:
    with tempfile.TemporaryDirectory(prefix="foretold-bench-") as name:
        folder = Path(name)
        file = weights_of(case, folder)
        manifest = manifest_of(case, file)
        host = Host(manifest, file, folder / "run")
        try:
            origin = LocalOrigin(host, manifest, patience=PATIENCE)
            await asyncio.gather(*(fill(origin, case) for _ in range(case.parallel)))
            took_bytes = private_bytes((await host.start()).pid)
        finally:
            await host.stop()
    ratio = manifest.memory_bytes / took_bytes
    print(f"| {case.name} | {manifest.memory_bytes / 1e6:.1f} | {took_bytes / 1e6:.1f} | {ratio:.2f} |", flush=True)
    return ratio


def weights_of(case: Case, folder: Path) -> Path:
    if case.model == "MiniLM":
        return minilm(models_folder(), tell=Quiet())
    if case.model == "tiny":
        return tiny_models.llama(folder / "tiny.gguf", context=131_072)
    return bundled.ensure(SMOLLM2, models_folder(), tell=Quiet())


def manifest_of(case: Case, file: Path) -> Manifest:
    if case.model == "SmolLM2 bundled":
        return SMOLLM2.with_settings(name="m", context=case.context, max_tokens=1, parallel=case.parallel)
    name = f"{case.model}.gguf"
    if case.model == "SmolLM2":
        files = [SMOLLM2.files[0]]
    else:
        files = [File(name, hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_size)]
    return described([header_of(file)], files, Said(name="m", context=case.context, parallel=case.parallel, kv=case.kv))


async def fill(origin: LocalOrigin, case: Case) -> None:
    """Raises RuntimeError unless all of a slot's context was used."""
    operation = "embedding" if case.model == "MiniLM" else "completion"
    word, marks = ("a", 1) if case.model == "tiny" else ("word ", 2 if operation == "embedding" else 1)
    words = case.context - marks - (0 if operation == "embedding" else 1)
    text = (word * words).strip()
    body = {"input": text} if operation == "embedding" else {"prompt": text, "max_tokens": 1}
    asked = Asked(operation=operation, model="m", method="POST", path="/x", body=json.dumps(body).encode())
    incoming = await origin.fetch(asked, Forwarded())
    told = b"".join([chunk async for chunk in incoming.chunks()])
    found = re.search(rb'"prompt_tokens":(\d+)', told)
    if found is None or int(found[1]) < case.context * 0.99 - 2:
        raise RuntimeError(f"{case.name}: the context was not filled: {told[:300]!r}")


def private_bytes(pid: int) -> int:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(status["RssAnon"].split()[0]) * 1024


if __name__ == "__main__":
    sys.exit(main())
