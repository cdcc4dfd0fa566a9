from __future__ import annotations

import math
from dataclasses import replace

import pytest

from foretold.config.models import ModelSettings
from foretold.errors import ConfigError
from foretold.models.configured import limited
from foretold.models.manifest import SMOLLM2, revision


def test_a_model_has_its_manifest_s_limits_where_settings_give_none():
    manifest = limited(SMOLLM2, ModelSettings(name="mine"))

    assert manifest == replace(SMOLLM2, name="mine")


def test_settings_limit_a_model_instead_of_its_manifest():
    manifest = limited(SMOLLM2, ModelSettings(name="mine", context=512, max_tokens=9, parallel=1))

    assert (manifest.context, manifest.max_tokens, manifest.parallel) == (512, 9, 1)


def test_a_context_kept_in_another_type_takes_other_memory_and_is_another_revision():
    manifest = limited(SMOLLM2, ModelSettings(name="mine", kv="q8_0"))

    assert (manifest.cache_type_k, manifest.cache_type_v) == ("q8_0", "q8_0")
    assert manifest.token_bytes == math.ceil(SMOLLM2.token_bytes * 34 / 64)
    assert revision(manifest) != revision(SMOLLM2)
    assert limited(SMOLLM2, ModelSettings(name="mine", kv="f16")) == replace(SMOLLM2, name="mine")


def test_of_a_context_kept_in_two_types_no_less_memory_is_predicted_than_it_takes():
    mixed = replace(SMOLLM2, cache_type_k="f16", cache_type_v="q8_0", token_bytes=1000)

    assert limited(mixed, ModelSettings(name="mine", kv="f16")).token_bytes == math.ceil(1000 * 64 / 34)


def test_more_context_than_a_model_was_made_for_is_an_error_with_both_numbers():
    with pytest.raises(ConfigError, match=r"models\.mine\.context is 8,193, and the model was made for 8,192 tokens"):
        limited(SMOLLM2, ModelSettings(name="mine", context=8193))
