"""A real model, from a bucket to an answer: nodes with empty caches, and one whose object store is gone."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from foretold.datafolder import models_folder
from foretold.models import bundled
from foretold.models.library.describing import Said
from foretold.models.library.gguf import Header, read_header
from foretold.models.library.push import push
from foretold.models.manifest import SMOLLM2
from tests.e2e.program import Node, run, serving
from tests.library.gguf_file import padded
from tests.library.weed import ACCESS_KEY, SECRET_KEY, Weed, weed
from tests.library.worlds import Told, store

LIBRARY = "s3://models/team"


@pytest.fixture(scope="module")
def weights() -> Path:
    """The bundled model, fetched once a machine."""
    return bundled.ensure(SMOLLM2, models_folder(), tell=Told())


@pytest.fixture
def bucket(tmp_path) -> Iterator[Weed]:
    (tmp_path / "weed").mkdir()
    with weed(tmp_path / "weed") as running:
        yield running


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """Of a node whose caches are empty."""
    monkeypatch.setenv("FORETOLD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "access").write_text(ACCESS_KEY)
    (tmp_path / "home" / "secret-key").write_text(SECRET_KEY)
    return tmp_path / "home"


def settings(home: Path, endpoint: str, revision: str, *, more: str = "") -> str:
    return f"""
[models.small]
source = "{LIBRARY}"
model = "smollm2"
revision = "{revision}"
context = 512
parallel = 1

[library]
endpoint = "{endpoint}"
access_key = {{ file = "{home}/access" }}
secret_key = {{ file = "{home}/secret-key" }}
{more}
"""


async def answer(node: Node, text: str) -> tuple[int, str, str]:
    """Status, Cache-Status and what was said."""
    asked = {"model": "small", "messages": [{"role": "user", "content": text}], "max_tokens": 8, "temperature": 0}
    status, headers, body = await node.post("/v1/chat/completions", asked)
    said = json.loads(body)["choices"][0]["message"]["content"] if status == 200 else body.decode()
    return status, headers.get("cache-status", ""), said


async def test_a_node_answers_with_a_model_from_a_bucket_and_does_so_again_once_the_bucket_is_gone(
    weights, bucket, home, tmp_path
):
    there = store(LIBRARY, bucket.endpoint)
    files = {"SmolLM2-135M-Instruct.Q4_1.gguf": weights}
    pushed = await push(there, files, Said(name="smollm2"), signing_key=None, tell=Told())
    given = settings(home, bucket.endpoint, pushed.revision)

    async with serving(home, given) as node:
        status, cached, said = await answer(node, "Name a colour.")
    assert (status, "fwd=uri-miss; stored" in cached, bool(said)) == (200, True, True)

    bucket.stop()
    async with serving(home, given) as node:
        again = await answer(node, "Name a colour.")
        other = await answer(node, "Name a fruit.")
    assert (again[0], "; hit" in again[1], again[2]) == (200, True, said)
    assert (other[0], "fwd=uri-miss" in other[1], bool(other[2])) == (200, True, True)


async def test_a_split_model_answers_on_every_worker_as_the_whole_one_would(weights, bucket, home, tmp_path):
    there = store(LIBRARY, bucket.endpoint)
    parts = split_in_two(weights, tmp_path)
    pushed = await push(there, {p.name: p for p in parts}, Said(name="smollm2"), signing_key=None, tell=Told())

    async with serving(home, settings(home, bucket.endpoint, pushed.revision, more="[server]\nworkers = 2")) as node:
        status, _, said = await answer(node, "Name a colour.")

    assert (status, bool(said)) == (200, True)
    links = list((tmp_path / "cache" / "models" / "split" / pushed.revision).iterdir())
    assert sorted(link.name for link in links) == [p.name for p in parts]


async def test_a_node_with_a_poisoned_model_does_not_start_and_says_why(weights, bucket, home):
    there = store(LIBRARY, bucket.endpoint)
    files = {"SmolLM2-135M-Instruct.Q4_1.gguf": weights}
    pushed = await push(there, files, Said(name="smollm2"), signing_key=None, tell=Told())
    content = bytearray(weights.read_bytes())
    content[50_000_000:50_200_000] = b"\xff" * 200_000
    await there.replace(f"blobs/sha256-{hashlib.sha256(weights.read_bytes()).hexdigest()}", bytes(content))
    (home / "foretold.toml").write_text(settings(home, bucket.endpoint, pushed.revision))

    ended = await run("serve", "--port", "0", "--json", home=home)

    assert ended.code == 1
    assert "model 'small' can't be run" in ended.err
    assert "SHA-256" in ended.err


def split_in_two(weights: Path, folder: Path) -> list[Path]:
    """The model as two files of a split one; the first has all entries and half of the tensors."""
    content = weights.read_bytes()
    header = read_header(content, len(content))
    entries, table = _entries_and_tensors(content, header)
    half = len(table) // 2
    parts = []
    for at, tensors in enumerate((table[:half], table[half:])):
        told = {"split.no": at, "split.count": 2, "split.tensors.count": len(table)}
        own = b"".join(_entry(name, value) for name, value in told.items())
        count = len(told) + (header_entries(content) if at == 0 else 0)
        start, end = tensors[0][1], tensors[-1][1] + tensors[-1][2]
        head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), count) + (entries if at == 0 else b"") + own
        for line, offset, _ in tensors:
            head += line + struct.pack("<Q", offset - start)
        data = content[header.length + start : header.length + end]
        path = folder / f"smollm2-{at + 1:05d}-of-00002.gguf"
        path.write_bytes(head.ljust(padded(len(head)), b"\0") + data)
        parts.append(path)
    return parts


def header_entries(content: bytes) -> int:
    return int(struct.unpack_from("<Q", content, 16)[0])


def _entries_and_tensors(content: bytes, header: Header) -> tuple[bytes, list[tuple[bytes, int, int]]]:
    """The entries as they stand there, and of each tensor its line less the offset, its offset, and its length."""
    at = content.index(struct.pack("<Q", len(b"output_norm.weight")) + b"output_norm.weight")
    first = content.index(struct.pack("<Q", len(b"token_embd.weight")) + b"token_embd.weight")
    start = at = min(at, first)
    lines: list[tuple[bytes, int]] = []
    for _ in range(header.tensors):
        begun = at
        at += 8 + struct.unpack_from("<Q", content, at)[0]
        at += 4 + 8 * struct.unpack_from("<I", content, at)[0] + 4
        lines.append((content[begun:at], struct.unpack_from("<Q", content, at)[0]))
        at += 8
    lines.sort(key=lambda line: line[1])
    ends = [offset for _, offset in lines[1:]] + [len(content) - header.length]
    return content[24:start], [(line, offset, end - offset) for (line, offset), end in zip(lines, ends, strict=True)]


def _entry(name: str, value: int) -> bytes:
    kind = (2, "<H") if name != "split.tensors.count" else (5, "<i")
    return struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", kind[0]) + struct.pack(kind[1], value)
