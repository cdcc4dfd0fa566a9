from __future__ import annotations

from dataclasses import replace

import pytest

from foretold.config.models import ModelSettings
from foretold.errors import ConfigError
from foretold.models.configured import limited
from foretold.models.manifest import SMOLLM2


def test_a_model_has_its_manifest_s_limits_where_settings_give_none():
    manifest = limited(SMOLLM2, ModelSettings(name="mine"))

    assert manifest == replace(SMOLLM2, name="mine")


def test_settings_limit_a_model_instead_of_its_manifest():
    manifest = limited(SMOLLM2, ModelSettings(name="mine", context=512, max_tokens=9, parallel=1))

    assert (manifest.context, manifest.max_tokens, manifest.parallel) == (512, 9, 1)


def test_more_context_than_a_model_was_made_for_is_an_error_with_both_numbers():
    with pytest.raises(ConfigError, match=r"models\.mine\.context is 8,193, and the model was made for 8,192 tokens"):
        limited(SMOLLM2, ModelSettings(name="mine", context=8193))
