"""A real embedding model, pushed to a library and brought from there: its vectors mean what they should."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from foretold.datafolder import models_folder
from foretold.models.host import Host
from foretold.models.library.bring import Brought
from foretold.origins.local import LocalOrigin
from foretold.ports import Asked, Forwarded
from tests.library.worlds import pulled, pushed, store
from tests.real_model.conftest import Quiet
from tests.real_model.minilm import minilm
from tests.real_model.test_real_model import memory_bytes

HAPPY, VERY_HAPPY, SUNNY = "That is a happy person", "That is a very happy person", "Today is a sunny day"


@pytest.fixture(scope="module")
def brought(tmp_path_factory) -> Brought:
    """The model, from its file into a library and out of it again."""
    folder = tmp_path_factory.mktemp("minilm")
    (folder / "library").mkdir()
    file = folder / "all-minilm-l6-v2.gguf"
    file.symlink_to(minilm(models_folder(), tell=Quiet()))

    async def there_and_back() -> Brought:
        there = store(f"file://{folder}/library", "")
        sent = await pushed(there, file, name="minilm")
        return await pulled(there, folder / "models", sent.revision, name="minilm")

    return asyncio.run(there_and_back())


@pytest.fixture
async def origin(brought, tmp_path) -> AsyncIterator[LocalOrigin]:
    host = Host(brought.manifest, brought.weights, tmp_path / "run")
    yield LocalOrigin(host, brought.manifest)
    await host.stop()


async def vectors(origin, *texts: str) -> list[list[float]]:
    body = json.dumps({"input": texts}).encode()
    asked = Asked(operation="embedding", model="minilm", method="POST", path="/embeddings", body=body)
    incoming = await origin.fetch(asked, Forwarded())
    told = json.loads(b"".join([chunk async for chunk in incoming.chunks()]))
    assert (incoming.status, incoming.is_proven) == (200, True)
    return [one["embedding"] for one in told["data"]]


def alike(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


async def test_what_it_can_do_is_read_from_its_file(origin):
    manifest = origin.manifest

    assert (manifest.capabilities, manifest.context, manifest.trained_context) == ({"embedding"}, 512, 512)
    assert (manifest.licence, manifest.languages) == ("apache-2.0", ("en",))


async def test_its_vectors_are_those_that_the_model_is_known_for(origin):
    happy, very_happy, sunny = await vectors(origin, HAPPY, VERY_HAPPY, SUNNY)

    assert len(happy) == 384
    # As its makers tell them of the same sentences.
    assert alike(happy, very_happy) == pytest.approx(0.943, abs=0.001)
    assert alike(happy, sunny) == pytest.approx(0.257, abs=0.001)


async def test_a_question_is_nearest_to_what_answers_it(origin):
    question, *answers = await vectors(
        origin,
        "How do I get my money back?",
        "Refunds are paid within ten days after the goods came back.",
        "The river rises in the mountains of the north.",
        "Our shop opens at nine on weekdays.",
    )

    near = [alike(question, answer) for answer in answers]
    assert near[0] == max(near)


async def test_a_vector_does_not_depend_on_what_else_is_asked_for(origin):
    alone = (await vectors(origin, HAPPY))[0]
    among = (await vectors(origin, *[f"{SUNNY} {at}" for at in range(12)], HAPPY))[-1]

    assert among == pytest.approx(alone, abs=1e-5)


async def test_its_private_memory_is_what_was_predicted(origin):
    await vectors(origin, "word " * 510)

    used_bytes = memory_bytes((await origin._host.start()).pid)

    assert 0.85 < origin.manifest.memory_bytes / used_bytes < 1.15
