from __future__ import annotations

import pytest

from foretold.config import load
from foretold.config.example import shown
from foretold.errors import ConfigError
from foretold.models.configured import limited
from foretold.models.manifest import SMOLLM2, revision


@pytest.mark.parametrize(
    ("written", "seconds", "told"), [("-1", -1, "-1"), ("0", 0, "0 s"), ('"0 s"', 0, "0 s"), ('"5 min"', 300, "5 min")]
)
def test_keep_alive_is_a_duration_none_or_for_ever(written, seconds, told):
    config = load(f"[models.a]\nkeep_alive = {written}\n")

    assert config.models[0].keep_alive == seconds
    assert shown(config)["models"][0]["keep_alive"] == told


@pytest.mark.parametrize("written", ["-2", "5", "true", "1.5", '"forever"', '"-1 s"'])
def test_any_other_keep_alive_is_refused_with_what_is_right(written):
    with pytest.raises(ConfigError, match=r'a duration such as "5 min", 0 for none, or -1'):
        load(f"[models.a]\nkeep_alive = {written}\n")


def test_by_default_a_model_stays_and_is_not_pinned():
    (model,) = load("[models.a]\n").models

    assert (model.keep_alive, model.pin, model.queue) == (-1, False, 64)


def test_a_reproducible_model_makes_one_answer_at_a_time():
    (model,) = load("[models.a]\nreproducible = true\n").models

    assert limited(SMOLLM2, model).parallel == 1
    assert revision(limited(SMOLLM2, model)) == revision(SMOLLM2)


def test_a_reproducible_model_with_several_slots_contradicts_itself():
    with pytest.raises(ConfigError, match=r"models\.a\.parallel: a reproducible model makes one answer at a time"):
        load("[models.a]\nreproducible = true\nparallel = 2\n")
